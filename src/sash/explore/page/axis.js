// The time axis of one window: its entries, the range that is dragged over, and what an aggregate covers.
"use strict";

const Axis = (() => {
  const HIGH = 62, LINE = 30, EDGE = 26;
  const {element, number, short} = Draw;

  function scaleOf(entries, width) {
    const first = entries.each ? (entries.each[0] || [0])[0] : entries.first;
    const last = entries.each ? (entries.each[entries.each.length - 1] || [1])[0] : entries.last;
    const low = first, high = last > first ? last : first + 1;
    return {
      low, high,
      x: (time) => EDGE + ((time - low) / (high - low)) * (width - 2 * EDGE),
      time: (x) => low + ((x - EDGE) / (width - 2 * EDGE)) * (high - low),
    };
  }

  function draw(svg, report, width, actions) {
    const {entries} = report, scale = scaleOf(entries, width);
    svg.setAttribute("viewBox", `0 0 ${width} ${HIGH}`);
    svg.setAttribute("height", HIGH);
    const back = element("g"), front = element("g");
    front.append(element("line", {class: "rule", x1: EDGE / 2, x2: width - EDGE / 2, y1: LINE, y2: LINE}));
    if (entries.each) dots(front, report, scale, width);
    else bins(front, entries, scale, width);
    svg.replaceChildren(back, front);
    pieces(front, report, scale);
    Object.assign(svg, {onpointerdown: null, onpointermove: null, onpointerup: null});
    if (actions) drag(svg, back, scale, entries, actions);
    const band = (first, last) => {
      back.replaceChildren();
      if (first == null) return;
      const left = scale.x(first) - 6, right = scale.x(last) + 6;
      back.append(element("rect", {class: "band", x: left, y: 3, width: Math.max(right - left, 2), height: LINE + 4, rx: 4}));
    };
    return {band};
  }

  function dots(group, report, scale, width) {
    const {each} = report.entries, latest = report.operation && report.operation.time;
    const room = (width - 2 * EDGE) / Math.max(each.length, 1);
    let free = -100, label = -100;
    for (const [time, value] of each) {
      const x = scale.x(time);
      group.append(element("circle", {class: "dot" + (time === latest ? " latest" : ""), cx: x, cy: LINE, r: room > 7 ? 3.5 : 2, "data-time": time}));
      const text = short(value, 5);
      if (room > 7 && x - free > text.length * 7.4 + 2) {
        group.append(element("text", {class: "letter", x, y: LINE - 10}, text));
        free = x + (text.length - 1) * 3.6;
      }
      const mark = number(time);
      if (x - label > mark.length * 6.4 + 5) {
        group.append(element("text", {x, y: LINE + 17}, mark));
        label = x + (mark.length - 1) * 3.2;
      }
    }
  }

  function bins(group, entries, scale, width) {
    const most = Math.max(...entries.bins), step = (width - 2 * EDGE) / entries.bins.length;
    entries.bins.forEach((count, i) => {
      const high = count ? 3 + (count / most) * 22 : 0;
      group.append(element("rect", {class: "bin", x: EDGE + i * step, y: LINE - high, width: Math.max(step - 0.3, 0.5), height: high}));
    });
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      const time = entries.first + part * (entries.last - entries.first);
      group.append(element("text", {x: scale.x(time), y: LINE + 17}, number(Math.round(time))));
    }
  }

  // What a range query was put together from: each stored aggregate and each single entry.
  function pieces(group, report, scale) {
    const {operation, query} = report;
    if (!operation || operation.op !== "range" || !query) return;
    const {start, stop} = operation;
    const left = Math.max(scale.x(start), 2), right = Math.min(scale.x(stop), scale.x(scale.high) + EDGE - 2);
    if (right >= left) group.append(element("rect", {class: "drag", x: left, y: 3, width: right - left, height: LINE + 4}));
    const named = new Map();
    for (const node of report.picture.nodes || []) for (const one of node.aggregates) named.set(one.name, one);
    const spans = query.read.map((name) => named.get(name)).filter(Boolean).map((one) => [one.first, one.last]);
    for (const [first, last] of [...spans, ...query.taken.map((time) => [time, time])])
      group.append(element("rect", {class: "piece", x: scale.x(first) - 4, y: LINE + 22, width: scale.x(last) - scale.x(first) + 8, height: 7, rx: 3}));
  }

  // A range from the first to the last entry that it was drawn over, or the nearest one if there is none.
  function snapped(entries, from, to) {
    const low = Math.min(from, to), high = Math.max(from, to);
    if (!entries.each) return [Math.round(low), Math.round(high)];
    const inside = entries.each.map(([time]) => time).filter((time) => time >= low && time <= high);
    return inside.length ? [inside[0], inside[inside.length - 1]] : [nearest(entries, low), nearest(entries, low)];
  }

  const nearest = (entries, goal) => entries.each.map(([time]) => time).reduce((a, b) => (Math.abs(b - goal) < Math.abs(a - goal) ? b : a));

  // Dragging asks for a range, a click selects the entry that is nearest.
  function drag(svg, back, scale, entries, {range, select}) {
    let from = null, pressed = 0;
    const timeAt = (event) => {
      const box = svg.getBoundingClientRect(), wide = svg.viewBox.baseVal.width;
      return Math.min(scale.high, Math.max(scale.low, scale.time(((event.clientX - box.left) / box.width) * wide)));
    };
    svg.onpointerdown = (event) => {
      [from, pressed] = [timeAt(event), event.clientX];
      svg.setPointerCapture(event.pointerId);
    };
    svg.onpointermove = (event) => {
      if (from == null || Math.abs(event.clientX - pressed) <= 4) return;
      const [start, stop] = snapped(entries, from, timeAt(event)), left = scale.x(start) - 5;
      back.replaceChildren(element("rect", {class: "drag", x: left, y: 3, width: scale.x(stop) + 5 - left, height: LINE + 4}));
    };
    svg.onpointerup = (event) => {
      if (from == null) return;
      const [start, stop] = snapped(entries, from, timeAt(event)), near = entries.each && nearest(entries, from);
      const isDrag = Math.abs(event.clientX - pressed) > 4, isNear = entries.each && Math.abs(scale.x(near) - scale.x(from)) < 12;
      from = null;
      back.replaceChildren();
      if (isDrag) range(start, stop);
      else if (isNear) select(near);
    };
    svg.onpointercancel = () => { from = null; back.replaceChildren(); };
  }

  return {draw};
})();
