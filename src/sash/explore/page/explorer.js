// The page: controls, stories, and the windows that are shown. Windows live in the server; here are only their reports.
"use strict";

const explorer = (() => {
  const $ = (id) => document.getElementById(id);
  const recorded = window.RECORDED || null;
  const mine = Math.random().toString(36).slice(2);  // so that pages do not share windows
  const OFF_TREES = ["two_stacks", "daba"];
  const state = {mode: null, sides: [], about: null, story: null, step: 0, timer: null, selected: null, unfolded: new Set(), busy: Promise.resolve(), lastStepMs: null, distances: null, hand: null, zoom: 0, coins: false};

  // --- the server ---------------------------------------------------------------------------------------------

  async function call(name, request = {}) {
    let answer;
    try {
      answer = await fetch(`api/${name}`, {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(request)});
    } catch {
      throw new Error("The explorer's server does not answer. Is `sash explore` still running?");
    }
    const data = await answer.json();
    if (data.error) throw new Error(data.error);
    return data;
  }

  // One request after the other, in the order of the keys that were pressed.
  function inTurn(work) {
    state.busy = state.busy.then(async () => {
      const started = performance.now();
      try {
        say("");
        await work();
      } catch (error) {
        say(error.message);
      }
      state.lastStepMs = performance.now() - started;
    });
    return state.busy;
  }

  function say(sentence) {
    $("message").textContent = sentence;
    $("message").hidden = !sentence;
  }

  // --- working by hand ----------------------------------------------------------------------------------------

  const settings = (structure) => {
    const options = {};
    for (const name of Object.keys(state.about.options[structure] || {})) options[name] = Number($(name).value);
    return options;
  };

  // Empty windows, or windows with the entries of an earlier one.
  async function startWindows(entriesOf = null) {
    const structures = [$("structure").value, ...($("rival").value ? [$("rival").value] : [])];
    const sides = [];
    for (const [i, structure] of structures.entries()) {
      const lab = `${mine}-${i}`;
      sides.push({lab, report: await call("new", {lab, structure, monoid: $("monoid").value, options: settings(structure), entries_of: entriesOf})});
    }
    beginHand(sides);
  }

  async function changeWindows() {
    try {
      await startWindows(`${mine}-0`);
    } catch (error) {
      showSettings();
      throw error;
    }
  }

  // The fields are those of the windows that are shown.
  function showSettings() {
    const [first, second] = state.sides.map(({report}) => report);
    $("structure").value = first.structure;
    $("rival").value = second ? second.structure : "";
    $("monoid").value = first.monoid;
    for (const {report} of state.sides) for (const [name, value] of Object.entries(report.options)) $(name).value = value;
  }

  // Back from a story to the windows that one worked on before it.
  async function byHand() {
    if (!state.hand) return startWindows();
    beginHand(state.hand);
    showSettings();
  }

  function beginHand(sides) {
    stopPlaying();
    state.mode = "hand";
    state.story = null;
    state.sides = state.hand = sides;
    state.selected = null;
    state.unfolded.clear();
    state.distances = null;
    state.zoom = 0;
    $("story").value = "";
    buildStages();
    showMode();
    render();
  }

  // The first window makes the choices, such as the time of a late entry; the second one gets the same operation.
  async function apply(request) {
    const lazy = !$("eager").checked && !["query", "range"].includes(request.op) ? {lazy: true} : {};
    let operation = {...request, ...lazy};
    for (const [i, side] of state.sides.entries()) {
      side.report = await call("apply", {lab: side.lab, operation, unfolded: unfoldedOf(i)});
      if (request.op !== "fill") operation = {...side.report.operation, ...lazy};
    }
    state.distances = null;
    render();
  }

  async function goBack(name) {
    for (const side of state.sides) side.report = await call(name, {lab: side.lab});
    state.unfolded.clear();
    state.distances = null;
    render();
  }

  const unfoldedOf = (side) => [...state.unfolded].filter((key) => key.startsWith(side + ":")).map((key) => Number(key.split(":")[1]));

  async function unfold(side, node) {
    state.unfolded.add(`${side}:${node}`);
    state.sides[side].report = await call("look", {lab: state.sides[side].lab, unfolded: unfoldedOf(side)});
    render();
  }

  async function measureDistances() {
    const measured = [];
    for (const side of state.sides) measured.push({name: nameOf(side.report).split(",")[0], entries: side.report.totals.entries, rungs: await call("distances", {lab: side.lab})});
    state.distances = measured;
    render();
  }

  const numberIn = (id, what) => {
    const text = $(id).value.trim();
    if (text === "" || Number.isNaN(Number(text))) throw new Error(`Enter ${what} first.`);
    return Number(text);
  };
  const valueIn = () => $("value").value.trim() || null;

  const actions = {
    "insert-next": () => apply({op: "insert"}),
    "insert-late": () => apply({op: "insert", late: numberIn("late", "by how many entries")}),
    "evict-oldest": () => apply({op: "evict"}),
    "evict-newest": () => apply({op: "evict", newest: true}),
    slide: () => apply({op: "slide"}),
    fill: () => apply({op: "fill", count: numberIn("fill-count", "how many entries"), order: $("fill-order").value}),
    query: () => apply({op: "query"}),
    undo: () => goBack("undo"),
    redo: () => goBack("redo"),
    distances: measureDistances,
    new: () => startWindows(),
    "insert-at": () => apply({op: "insert", time: numberIn("time", "a time"), value: valueIn()}),
    "evict-at": () => apply({op: "evict", time: numberIn("time", "a time")}),
    "evict-until": () => apply({op: "evict_until", time: numberIn("time", "a time")}),
    range: () => apply({op: "range", start: numberIn("start", "where the range starts"), stop: numberIn("stop", "where the range stops")}),
  };
  const keys = {i: "insert-next", l: "insert-late", e: "evict-oldest", n: "evict-newest", s: "slide", f: "fill", q: "query", z: "undo", y: "redo", d: "distances", Delete: "evict-at"};
  const enters = {late: "insert-late", "fill-count": "fill", "fill-order": "fill", time: "insert-at", value: "insert-at", start: "range", stop: "range"};
  const keyHelp = [["I", "insert the next entry, in order"], ["L", "insert an entry that is late"], ["F", "insert many"], ["E", "evict the oldest"], ["N", "evict the newest"], ["S", "slide: evict the oldest, insert the next"], ["Del", "evict the entry that is selected"], ["Q", "query the whole window"], ["Z, Y", "undo, redo"], ["D", "measure what distance costs"], ["← →", "steps of a story; in the tree, from one aggregate to the next"], ["Space", "play or pause a story"], ["+ −", "zoom"], ["T", "light or dark"], ["Enter", "in a field: the button beside it"], ["?", "this help"], ["Esc", "close the help"]];

  // --- stories ------------------------------------------------------------------------------------------------

  async function openStory(key) {
    stopPlaying();
    const story = recorded ? recorded.played[key] : await call("story", {story: key});
    state.mode = "story";
    state.story = story;
    state.step = 0;
    state.sides = story.sides.map(() => ({lab: null, report: null}));
    state.distances = null;
    state.selected = null;
    state.zoom = 0;
    state.coins = story.coins;
    $("coins").checked = story.coins;
    $("story").value = key;
    buildStages();
    showMode();
    toStep(0);
  }

  function toStep(step) {
    const {story} = state;
    state.step = Math.max(0, Math.min(story.steps.length - 1, step));
    story.steps[state.step].reports.forEach((report, i) => { state.sides[i].report = report; });
    const {caption, measured} = story.steps[state.step];
    $("caption").textContent = caption;
    $("story-intro").hidden = state.step > 0;
    const isRace = new Set(measured.map(({structure}) => structure)).size > 1;
    state.distances = measured.length ? measured.map((one) => ({...one, name: isRace ? one.structure : `${one.entries.toLocaleString("en")} entries`})) : null;
    $("story-step").textContent = `Step ${state.step + 1} of ${story.steps.length}`;
    $("previous").disabled = state.step === 0;
    $("next").disabled = state.step === story.steps.length - 1;
    $("story-end").hidden = !$("next").disabled;
    if ($("next").disabled) stopPlaying();
    render();
  }

  function play() {
    if (state.timer) return stopPlaying();
    if (state.step === state.story.steps.length - 1) toStep(0);
    $("play").textContent = "Pause";
    $("play").setAttribute("aria-pressed", "true");
    const wait = () => 2200 + 28 * state.story.steps[Math.min(state.step + 1, state.story.steps.length - 1)].caption.length;
    const tick = () => { toStep(state.step + 1); if (state.timer) state.timer = setTimeout(tick, wait()); };
    state.timer = setTimeout(tick, 900);
  }

  function stopPlaying() {
    clearTimeout(state.timer);
    state.timer = null;
    $("play").textContent = "Play";
    $("play").setAttribute("aria-pressed", "false");
  }

  async function resume() {
    const names = state.sides.map((_, i) => `${mine}-${i}`);
    const reports = await call("resume", {story: state.story.key, step: state.step, labs: names});
    const measured = state.distances;
    beginHand(names.map((lab, i) => ({lab, report: reports[i]})));
    state.distances = measured;
    showSettings();
    render();
  }

  // --- what is shown ------------------------------------------------------------------------------------------

  function nameOf(report) {
    const {structure, options} = report;
    if (options.min_arity) return `${structure}, µ = ${options.min_arity}`;
    return options.fanout ? `${structure}, leaves of ${options.leaf_capacity}` : structure;
  }

  function showMode() {
    $("controls").hidden = state.mode !== "hand";
    $("player").hidden = $("telling").hidden = state.mode !== "story";
    $("by-hand").hidden = recorded !== null || state.mode === "hand";
    $("resume").hidden = recorded !== null;
    for (const one of document.querySelectorAll(".live")) one.hidden = recorded !== null;
    $("distances").hidden = state.mode !== "hand";
    if (state.mode === "story") {
      $("story-intro").textContent = state.story.intro.replaceAll("`", "");
    } else {
      const used = new Set(state.sides.flatMap((side) => Object.keys(state.about.options[side.report.structure] || {})));
      for (const label of document.querySelectorAll("[data-option]")) label.hidden = !used.has(label.dataset.option);
    }
  }

  function make(name, className, parent, text) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text != null) made.textContent = text;
    parent.append(made);
    return made;
  }

  function buildStages() {
    const box = $("stages");
    box.replaceChildren();
    box.className = state.sides.length > 1 ? "two" : "";
    state.sides.forEach((side, i) => {
      const stage = make("section", "stage", box);
      stage.dataset.side = i;
      const head = make("div", "stage-head", stage);
      side.heading = make("h2", "", head);
      side.how = make("span", "how", head);
      side.facts = make("ul", "numbers facts", head);
      side.what = make("div", "what", stage);
      side.answer = make("p", "answer", stage);
      side.numbers = make("ul", "numbers", stage);
      side.axis = Draw.element("svg", {class: "axis", role: "img", "aria-label": "entries on the time axis; drag to query a range"});
      stage.append(side.axis);
      const wrap = make("div", "tree-wrap", stage);
      side.box = make("div", "tree-box", wrap);
      side.box.tabIndex = 0;
      side.box.setAttribute("role", "group");
      side.box.setAttribute("aria-label", "the structure; arrow keys go from aggregate to aggregate");
      const zoom = make("div", "zoom", wrap);
      for (const [text, label, factor] of [["−", "smaller", 1 / 1.25], ["fit", "fit", 0], ["+", "larger", 1.25]]) {
        const button = make("button", "", zoom, text);
        button.type = "button";
        button.setAttribute("aria-label", label);
        button.onclick = () => zoomBy(factor);
      }
      side.svg = Draw.element("svg", {class: "tree", role: "img"});
      side.box.append(side.svg);
      side.positions = new Map();
      watchPointer(stage, i);
    });
  }

  function render() {
    $("distances-panel").hidden = state.mode !== "hand" && !state.distances;
    $("distances-panel").classList.toggle("first", state.distances !== null);
    state.sides.forEach((side) => renderSide(side));
    fitAll();
    legend();
    Costs.history($("costs"), state.sides.map(({report}) => ({name: nameOf(report), costs: report.costs, nodes: report.picture.kind === "tree"})));
    if (state.distances) Costs.distances($("distances-chart"), state.distances);
    else $("distances-chart").replaceChildren();
    const first = state.sides[0].report;
    if (state.mode === "hand") {
      $("undo").disabled = first.step === 0;
      $("redo").disabled = first.step === first.steps;
    }
    $("status").textContent = state.sides.map(({report, numbers}) => `${nameOf(report)}: ${report.title}. ${report.said.join(" ")} ${numbers.textContent} Result ${report.answer.text ?? "not asked"}.`).join(" ");
  }

  // Only what the structures that are shown have.
  function legend() {
    const reports = state.sides.map(({report}) => report), trees = reports.filter(({picture}) => picture.kind === "tree");
    const has = {
      any: true,
      root: trees.length > 0,
      queue: trees.length < reports.length,
      spines: reports.some(({structure}) => ["paper", "fiba"].includes(structure)),
      folded: trees.some(({picture}) => picture.nodes.some((node) => node.folded)),
      coins: reports.some(({totals}) => totals.coins !== null),
    };
    for (const row of document.querySelectorAll("[data-if]")) row.hidden = !has[row.dataset.if];
  }

  function renderSide(side) {
    const {report} = side;
    side.heading.textContent = report.structure;
    side.how.textContent = nameOf(report).slice(report.structure.length + 2) + (nameOf(report) === report.structure ? "" : " · ") + `operator: ${report.monoid}`;
    side.answer.replaceChildren("result ", Object.assign(document.createElement("b"), {textContent: report.answer.text === null ? "not asked yet" : report.answer.text || "nothing yet"}));
    side.answer.title = report.answer.text ?? "";
    side.answer.dataset.value = JSON.stringify(report.answer.value ?? null);
    side.what.replaceChildren();
    make("strong", "title", side.what, report.title);
    if (report.refused) make("span", "refused", side.what, `Refused: ${report.refused}`);
    else make("span", "said", side.what, report.said.join(" "));
    numbers(side, report);
    const wide = Math.max(side.box.clientWidth - 4, 300);
    side.axis.replaceChildren();
    side.axis.style.display = report.entries.count ? "" : "none";
    side.band = report.entries.count ? Axis.draw(side.axis, report, wide, state.mode === "hand" ? {range: (start, stop) => inTurn(() => askRange(start, stop)), select} : null).band : () => {};
    drawStructure(side, report, wide);
    showSelected();
  }

  function askRange(start, stop) {
    $("start").value = start;
    $("stop").value = stop;
    return apply({op: "range", start, stop});
  }

  function numbers(side, report) {
    const {totals, update, query, billed} = report, isTree = !OFF_TREES.includes(report.structure);
    const isQuestion = report.operation && ["query", "range"].includes(report.operation.op);
    let item = null;
    const row = (list, title) => { item = make("li", "", list); if (title) item.title = title; };
    const put = (before, name, value, after = "") => {
      item.append(before);
      make("b", name, item, typeof value === "number" ? value.toLocaleString("en") : value);
      item.append(after);
    };
    side.facts.replaceChildren();
    side.numbers.replaceChildren();
    row(side.facts);
    put("", "entries", totals.entries, totals.entries === 1 ? " entry" : " entries");
    if (isTree) {
      put(" in ", "nodes", totals.nodes, totals.nodes === 1 ? " node" : " nodes");
      put(" on ", "height", totals.height, totals.height === 1 ? " level" : " levels");
      row(side.numbers, "Looked at by the search for the place, changed, or both");
      put("nodes touched ", "touched", isQuestion ? query.touched : update.touched);
      if (!isQuestion) {
        put(" (looked at ", "seen", update.seen);
        put(", changed ", "altered", update.altered, ")");
        if (query) put(", by the query ", "touched-query", query.touched);
      }
    }
    row(side.numbers, "One combine is one use of the operator, such as one addition");
    put("combines to update ", "combines-update", update.combines);
    put(", to query ", "combines-query", query ? query.combines : 0);
    put(", in total ", "combines-total", totals.combines);
    if (!state.coins || totals.coins === null) return;
    row(side.numbers, "The bookkeeping of the paper's analysis: each operation pays at most two coins, and what is saved up pays for splits and merges");
    put("coins ", "coins", totals.coins);
    if (!billed) return;
    put(", spent ", "spent", billed.spent);
    put(billed.billed < 0 ? ", refunded " : ", billed ", "billed", Math.abs(billed.billed));
  }

  function drawStructure(side, report, wide) {
    side.svg.setAttribute("aria-label", `${report.structure} with ${report.totals.entries} entries in ${report.totals.nodes} nodes`);
    const picture = report.picture;
    if (picture.kind === "tree" && picture.nodes.length === 0) {
      side.svg.replaceChildren(Draw.element("text", {x: 20, y: 40, class: "part-name"}, "nothing yet"));
      side.svg.setAttribute("viewBox", "0 0 300 80");
      side.size = {width: 300, height: 80, positions: new Map()};
    } else {
      side.size = picture.kind === "tree" ? Draw.tree(side.svg, report, side.positions, state.coins) : Draw.queue(side.svg, report, wide);
    }
    side.positions = side.size.positions;
  }

  // All of each structure is in view, at one scale, until the user zooms.
  function fitAll() {
    const fits = state.sides.map(({box, size}) => Math.min(1.15, (box.offsetWidth - 8) / size.width, (box.offsetHeight - 8) / size.height));
    state.scale = state.zoom || Math.max(0.05, Math.min(...fits));
    for (const side of state.sides) {
      side.svg.setAttribute("width", side.size.width * state.scale);
      side.svg.setAttribute("height", side.size.height * state.scale);
      keepInView(side);
    }
  }

  function zoomBy(factor) {
    state.zoom = factor && Math.max(0.15, Math.min(2.5, state.scale * factor));
    fitAll();
  }

  // Of a tree that is larger than its box, show where the operation was: the lowest node that it touched.
  function keepInView({box, svg, report, positions}) {
    if (svg.clientWidth <= box.clientWidth && svg.clientHeight <= box.clientHeight) return;
    const known = (nodes) => nodes.map((node) => positions.get(node)).filter(Boolean);
    const marked = known(report.marked), all = marked.length ? marked : [...positions.values()].slice(0, 1);
    if (!all.length) return;
    const lowest = all.reduce((a, b) => (b.y > a.y ? b : a));
    box.scrollLeft = lowest.x * state.scale - box.clientWidth / 2;
    box.scrollTop = (lowest.y + 40) * state.scale - box.clientHeight / 2;
  }

  // --- pointing -----------------------------------------------------------------------------------------------

  function watchPointer(stage, i) {
    const over = (event) => {
      const found = event.target.closest && event.target.closest(".aggregate");
      if (found) point(i, found);
      else unpoint(i);
    };
    stage.addEventListener("pointerover", over);
    stage.addEventListener("pointerleave", () => unpoint(i));
    stage.addEventListener("click", (event) => {
      const folded = event.target.closest(".folded"), entry = event.target.closest("[data-time]");
      if (folded && state.mode === "hand") inTurn(() => unfold(i, Number(folded.dataset.unfold)));
      else if (entry && state.mode === "hand") select(Number(entry.dataset.time));
    });
    state.sides[i].box.addEventListener("keydown", (event) => {
      if (["ArrowLeft", "ArrowRight"].includes(event.key)) {
        event.preventDefault();
        event.stopPropagation();
        walk(i, event.key === "ArrowRight" ? 1 : -1);
      }
    });
    state.sides[i].box.addEventListener("blur", () => unpoint(i));
  }

  function walk(i, by) {
    const all = [...state.sides[i].svg.querySelectorAll(".aggregate")];
    if (!all.length) return;
    const at = all.findIndex((one) => one.classList.contains("pointed"));
    point(i, all[(at + by + all.length + (at < 0 && by < 0 ? 1 : 0)) % all.length]);
  }

  function point(i, aggregate) {
    const side = state.sides[i];
    if (side.pointed === aggregate) return;
    unpoint(i);
    side.pointed = aggregate;
    aggregate.classList.add("pointed");
    const first = Number(aggregate.dataset.first), last = Number(aggregate.dataset.last);
    let count = 0;
    // In the ring of `reactive` an aggregate may join the newest entries with the oldest.
    const covers = (time) => (first <= last ? time >= first && time <= last : time >= first || time <= last);
    for (const cell of side.svg.querySelectorAll(".cell[data-time]")) {
      const covered = covers(Number(cell.dataset.time));
      cell.classList.toggle("covered", covered);
    }
    for (const dot of side.axis.querySelectorAll(".dot")) {
      const covered = covers(Number(dot.dataset.time));
      dot.classList.toggle("covered", covered);
      count += covered;
    }
    if (first <= last) side.band(first, last);
    const many = side.report.entries.each ? `${count} ${count === 1 ? "entry" : "entries"}` : "entries";
    const sentence = `This aggregate, ${aggregate.dataset.value}, covers the ${many} from ${Draw.number(first)} to ${Draw.number(last)}.`;
    side.note = side.note || make("span", "note", side.what);
    side.what.querySelector(".said, .refused").hidden = true;
    if (!side.note.isConnected) side.what.append(side.note);
    side.note.textContent = sentence;
    $("status").textContent = sentence;
  }

  function unpoint(i) {
    const side = state.sides[i];
    if (!side || !side.pointed) return;
    side.pointed.classList.remove("pointed");
    side.pointed = null;
    for (const marked of [...side.svg.querySelectorAll(".covered"), ...side.axis.querySelectorAll(".covered")]) marked.classList.remove("covered");
    side.band(null, null);
    if (side.note) side.note.remove();
    const said = side.what.querySelector(".said, .refused");
    if (said) said.hidden = false;
  }

  function select(time) {
    state.selected = time;
    $("time").value = time;
    showSelected();
  }

  function showSelected() {
    for (const {svg, axis} of state.sides)
      for (const one of [...svg.querySelectorAll(".cell[data-time]"), ...axis.querySelectorAll(".dot")])
        one.classList.toggle("selected", Number(one.dataset.time) === state.selected);
  }

  // --- the page as a whole ------------------------------------------------------------------------------------

  function theme(choice) {
    document.documentElement.dataset.theme = choice;
    try { localStorage.setItem("sash-theme", choice); } catch { /* a page from a disk may not store anything */ }
  }

  function storedTheme() {
    try { return localStorage.getItem("sash-theme"); } catch { return null; }
  }

  function toggleHelp(open = $("help").hidden) {
    $("help").hidden = !open;
    $("help-button").setAttribute("aria-expanded", String(open));
  }

  function onKey(event) {
    if (event.key === "Escape") return toggleHelp(false);
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (key === "?") return toggleHelp();
    if (key === "t") return $("theme").click();
    if (key === "+" || key === "-") return zoomBy(key === "+" ? 1.25 : 1 / 1.25);
    if (state.mode === "story") {
      if (key === "ArrowRight") return toStep(state.step + 1);
      if (key === "ArrowLeft") return toStep(state.step - 1);
      if (key === " " && !event.target.closest("button")) { event.preventDefault(); return play(); }
      return;
    }
    const action = keys[key];
    if (!action || $(action).disabled) return;
    event.preventDefault();
    inTurn(actions[action]);
  }

  function fillSelect(select, pairs) {
    for (const [value, text] of pairs) make("option", "", select, text).value = value;
  }

  function wire() {
    const dark = window.matchMedia && matchMedia("(prefers-color-scheme: dark)").matches;
    theme(storedTheme() || (dark ? "dark" : "light"));
    $("theme").onclick = () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    $("help-button").onclick = () => toggleHelp();
    for (const [key, text] of keyHelp) {
      make("kbd", "", make("dt", "", $("keys")), key);
      make("dd", "", $("keys"), text);
    }
    for (const [name, action] of Object.entries(actions)) $(name).onclick = () => inTurn(action);
    for (const name of ["structure", "rival", "monoid", "min_arity", "leaf_capacity", "fanout"]) $(name).onchange = () => inTurn(changeWindows);
    for (const [name, button] of Object.entries(enters))
      $(name).addEventListener("keydown", (event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        inTurn(actions[button]);
      });
    $("coins").onchange = () => { state.coins = $("coins").checked; render(); };
    $("previous").onclick = () => toStep(state.step - 1);
    $("next").onclick = () => { stopPlaying(); toStep(state.step + 1); };
    $("play").onclick = play;
    $("resume").onclick = () => inTurn(resume);
    $("by-hand").onclick = () => inTurn(byHand);
    $("story").onchange = () => {
      $("story").blur();  // so that the arrow keys go through its steps
      if ($("story").value) inTurn(() => openStory($("story").value));
    };
    document.addEventListener("keydown", onKey);
    let resized = null;
    window.addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(() => { if (state.sides.length) render(); }, 120); });
  }

  async function start() {
    wire();
    state.about = recorded ? {stories: recorded.stories, options: {}} : await call("about");
    fillSelect($("story"), state.about.stories.map(({key, title}) => [key, title]));
    const asked = new URLSearchParams(location.search), known = state.about.stories.map(({key}) => key);
    if (!recorded) {
      const names = {two_stacks: "two stacks", daba: "DABA", paper: "paper (FiBA as printed)", fiba: "fiba (sash's default)", classic: "classic (B-tree)", reactive: "reactive"};
      fillSelect($("structure"), state.about.structures.map((name) => [name, names[name] || name]));
      fillSelect($("rival"), state.about.structures.map((name) => [name, names[name] || name]));
      fillSelect($("monoid"), state.about.monoids.map((name) => [name, name === "text" ? "text (joined)" : name]));
      fillSelect($("fill-order"), state.about.orders.map((name) => [name, name]));
      for (const options of Object.values(state.about.options)) for (const [name, [, , value]] of Object.entries(options)) $(name).value = value;
      $("structure").value = asked.get("structure") || "paper";
      $("rival").value = asked.get("rival") || "";
    }
    const wanted = asked.get("story");
    if (!recorded && (asked.has("structure") || wanted === "none")) return startWindows();
    await openStory(known.includes(wanted) ? wanted : known[0]);
    if (asked.has("step")) toStep(Number(asked.get("step")) - 1);
  }

  inTurn(start);
  return {state};
})();
