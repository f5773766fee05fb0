// The windows of an engine: when each begins and ends, and how the engine reads its rows. Nothing here knows any row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "keyed/calendar.hpp"

namespace sash {

inline int64_t later(int64_t time, int64_t size) {
    int64_t sum;
    return __builtin_add_overflow(time, size, &sum) ? INT64_MAX : sum;
}

inline int64_t earlier(int64_t time, int64_t size) {
    int64_t difference;
    return __builtin_sub_overflow(time, size, &difference) ? INT64_MIN : difference;
}

// Are two times more than `size` ticks apart?
inline bool apart(int64_t from, int64_t to, int64_t size) {
    return to > from && static_cast<uint64_t>(to) - static_cast<uint64_t>(from) > static_cast<uint64_t>(size);
}

// How far a time is past the last point of a grid; the offset is from 0 to below the step.
inline int64_t past_on(int64_t time, int64_t step, int64_t offset) {
    int64_t past = time % step - offset;
    if (past < 0) past += step;
    return past < 0 ? past + step : past;
}

// How far one window of an anchor at t reaches.
struct Extent {
    enum Kind : uint8_t {
        span,       // from t - size to t
        rows,       // the last `size` rows
        period,     // from the start of the calendar's period
        unbounded,  // everything before
        ahead       // from t to t + size
    } kind = span;
    int64_t size = 0;
    std::shared_ptr<const Calendar> calendar;

    // The start of a time's period, and the start of the next one; times mostly follow each other.
    int64_t period_start(int64_t time) const { return period_of(time).start; }
    int64_t period_end(int64_t time) const { return period_of(time).end; }

    // Does it depend on how many rows there are, and not on a time where it begins?
    bool counts() const { return kind == rows || kind == unbounded; }

   private:
    struct Known {
        int64_t start = 0, end = 0;
    };
    const Known& period_of(int64_t time) const {
        if (time >= known_[last_].start && time < known_[last_].end) return known_[last_];
        last_ = static_cast<uint64_t>(time / calendar->about()) % kKnown;
        Known& found = known_[last_];
        if (time < found.start || time >= found.end) found = {calendar->start_of(time), calendar->next_after(time)};
        return found;
    }
    // The periods that were asked for, since keys come one after the other and have about the same ones.
    static constexpr size_t kKnown = 32;
    mutable Known known_[kKnown];
    mutable size_t last_ = 0;
};

struct Frame {
    std::vector<Extent> windows;
    bool starts_inside = false, ends_inside = true;  // are rows at a window's two ends in it?
    bool remembers = false;
    bool named = false;                       // ids are bytes
    int64_t every = 0, offset = 0;            // boundaries; none: results are for the rows
    std::shared_ptr<const Calendar> periods;  // whose starts are the boundaries
    int64_t pane = 0, pane_offset = 0;        // what times are rounded down to; none: they are as they are
    int64_t gap = 0;                          // of sessions, which results are for; none: there are no sessions
    bool merged = false;                      // all rows of a pane are one record
    bool rounded = false;                     // monoids see rounded times too
    bool identified = false;                  // rows carry a hash of what deletes compare besides the inputs
    bool shown = true;                        // are the aggregates' results seen by anybody?
    int64_t idle = 0;                         // after so long a gap, windows that count start from nothing; 0: never
    int64_t min_rows = 0;                     // of a window that has results
    uint32_t leaf_capacity = 0, fanout = 0;   // of the trees; 0: what suits the rows

    bool on_grid() const { return every || periods; }

    bool has(Extent::Kind kind) const {
        return std::any_of(windows.begin(), windows.end(), [&](const Extent& window) { return window.kind == kind; });
    }
    bool counts() const { return has(Extent::rows) || has(Extent::unbounded); }
    int64_t most_rows() const {
        int64_t most = 0;
        for (const Extent& window : windows)
            if (window.kind == Extent::rows) most = std::max(most, window.size);
        return most;
    }

    // The first time in the window of an anchor, for windows that begin at a time.
    int64_t first_time(int64_t time, const Extent& window) const {
        switch (window.kind) {
            case Extent::span: {
                int64_t edge = earlier(time, window.size);
                return starts_inside || edge == INT64_MIN ? edge : edge + 1;
            }
            case Extent::period: return window.period_start(on_grid() ? earlier(time, 1) : time);
            case Extent::ahead: return starts_inside || ends_inside ? time : later(time, 1);
            default: return INT64_MIN;
        }
    }
    // The first time after the window; false: there is none.
    bool stop_time(int64_t time, const Extent& window, int64_t& stop) const {
        if (window.kind == Extent::ahead)
            return !__builtin_add_overflow(time, window.size + (starts_inside && ends_inside), &stop);
        stop = ends_inside && time < INT64_MAX ? time + 1 : time;
        return !ends_inside || time < INT64_MAX;
    }
    // Where aggregates that depend on times see a window begin and end, if it begins at a time.
    int64_t edge_before(int64_t time, const Extent& window) const {
        if (window.kind == Extent::span) return earlier(time, window.size);
        return window.kind == Extent::ahead ? time : first_time(time, window);
    }
    static int64_t edge_after(int64_t time, const Extent& window) {
        return window.kind == Extent::ahead ? later(time, window.size) : time;
    }

    // The last time of an anchor that sees a row, of those whose windows begin at a time.
    int64_t timed_until(int64_t time) const {
        int64_t until = time;
        for (const Extent& window : windows) {
            if (window.kind == Extent::span) until = std::max(until, later(time, window.size));
            if (window.kind == Extent::period) until = std::max(until, window.period_end(time));
        }
        return until;
    }
    // The same for all windows, but those of the last rows.
    int64_t seen_until(int64_t time) const { return has(Extent::unbounded) ? INT64_MAX : timed_until(time); }
    // The last time at which rows, the newest of their key at `newest`, may be needed; INT64_MAX: they always are.
    int64_t needed_until(int64_t newest) const {
        if (counts() && !idle) return INT64_MAX;
        return std::max(timed_until(newest), counts() ? later(newest, idle) : newest);
    }
    // The time at or before which rows are not needed, but as the last ones of their key: the first anchor that is not
    // final, and the time before which rows are late, tell.
    int64_t dropped_at(int64_t anchor, int64_t late) const {
        int64_t bound = INT64_MAX;
        for (const Extent& window : windows)
            bound = std::min(bound, earlier(window.counts() ? late : first_time(anchor, window), 1));
        return bound;
    }
    // The first anchor none of whose windows begins at or before a time, as far as times tell.
    bool first_after(int64_t dropped, int64_t& anchor) const {
        anchor = INT64_MIN;
        for (const Extent& window : windows) {
            int64_t own = INT64_MIN;
            if (window.kind == Extent::span) {
                if (__builtin_add_overflow(dropped, window.size + starts_inside, &own)) return false;
            } else if (window.kind == Extent::period) {
                own = window.period_end(dropped);
                if (own == INT64_MAX) return false;
                own += on_grid();
            }
            anchor = std::max(anchor, own);
        }
        return true;
    }

    // The first boundary after a time; false: there is none.
    bool next_boundary(int64_t time, int64_t& boundary) const {
        if (periods) return (boundary = periods->next_after(time)) < INT64_MAX;
        return !__builtin_add_overflow(time, every - past_on(time, every, offset), &boundary);
    }
    // A boundary appears where there is a row from this time on and before it: one that a window of times has, or, where
    // all windows count rows, one since the boundary before.
    int64_t first_shown(int64_t boundary) const {
        int64_t first = INT64_MAX;
        for (const Extent& window : windows)
            if (!window.counts()) first = std::min(first, first_time(boundary, window));
        if (first < INT64_MAX) return first;
        return periods ? periods->start_of(earlier(boundary, 1)) : earlier(boundary, every);
    }
};

}  // namespace sash
