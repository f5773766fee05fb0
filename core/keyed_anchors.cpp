// Which anchors there are results for: rows, or boundaries of the grid.
#include <tuple>

#include "hash.hpp"
#include "keyed.hpp"

namespace sash {

// --- rows ----------------------------------------------------------------------------------------------

std::vector<Anchor> Keyed::arrived(const int64_t* times, const uint8_t* status) const {
    std::vector<Anchor> anchors;
    for (size_t row = 0; row < slots_.size(); ++row)
        if (status[row] == inserted)
            anchors.push_back({slots_[row], times[row], 0, batch_seq_ + static_cast<int64_t>(row)});
    return anchors;
}

Anchor Keyed::anchor_of(uint32_t slot, const int64_t* row) const {
    return {slot, row[Run::kTime], row[Run::kTie], Run::seq_of(row)};
}

namespace {

void sort_by_arrival(std::vector<Anchor>& anchors) {
    std::sort(anchors.begin(), anchors.end(),
              [](const Anchor& a, const Anchor& b) { return std::tie(a.time, a.seq) < std::tie(b.time, b.seq); });
}

int64_t plus(int64_t time, int64_t size) {
    int64_t sum;
    return __builtin_add_overflow(time, size, &sum) ? INT64_MAX : sum;
}

int64_t minus(int64_t time, int64_t size) {
    int64_t difference;
    return __builtin_sub_overflow(time, size, &difference) ? INT64_MIN : difference;
}

}  // namespace

std::vector<Anchor> Keyed::between(int64_t from, int64_t to) {
    std::vector<Anchor> anchors;
    for (uint32_t slot = 0; slot < windows_.size(); ++slot) {
        const Run& rows = windows_[slot].rows;
        if (!rows.size() || rows.time(rows.size() - 1, shape_) < from) continue;
        for (uint32_t at = rows.find(from, shape_); at < rows.size() && rows.time(at, shape_) < to; ++at)
            anchors.push_back(anchor_of(slot, rows.row(at, shape_)));
    }
    sort_by_arrival(anchors);
    return anchors;
}

// An event at t changes the anchors of its key from t to t + the largest size.
std::vector<Anchor> Keyed::touched() {
    std::vector<Anchor> anchors;
    std::sort(touches_.begin(), touches_.end(),
              [](const Touch& a, const Touch& b) { return std::tie(a.slot, a.time) < std::tie(b.slot, b.time); });
    for (size_t i = 0; i < touches_.size();) {
        uint32_t slot = touches_[i].slot;
        const Run& rows = windows_[slot].rows;
        uint32_t at = 0;
        for (; i < touches_.size() && touches_[i].slot == slot; ++i) {
            int64_t until = plus(touches_[i].time, largest_);
            at = std::max(at, rows.find(touches_[i].time, shape_));
            for (; at < rows.size() && rows.time(at, shape_) <= until; ++at)
                anchors.push_back(anchor_of(slot, rows.row(at, shape_)));
        }
    }
    touches_.clear();
    sort_by_arrival(anchors);
    return anchors;
}

std::vector<Anchor> Keyed::gone() { return std::exchange(gone_, {}); }

// --- boundaries ----------------------------------------------------------------------------------------

bool Keyed::next_boundary(int64_t time, int64_t& boundary) const {
    return !__builtin_add_overflow(time, frame_.every - past_on(time, frame_.every, frame_.offset), &boundary);
}

bool Keyed::first_boundary(const Run& rows, int64_t from, int64_t& boundary) const {
    return rows.size() && next_boundary(std::max(from, rows.time(0, shape_)), boundary);
}

std::vector<Anchor> Keyed::boundaries(int64_t from, int64_t to) const {
    std::vector<Anchor> anchors;
    for (uint32_t slot = 0; slot < windows_.size(); ++slot) {
        const Run& rows = windows_[slot].rows;
        int64_t boundary;
        if (!first_boundary(rows, from, boundary)) continue;
        for (uint32_t at = 0; boundary <= to;) {
            at = rows.find_from(at, minus(boundary, largest_), shape_);
            if (at == rows.size()) break;
            bool there;
            if (rows.time(at, shape_) >= boundary) {  // nothing is seen before the first that sees this row
                there = next_boundary(rows.time(at, shape_), boundary);
            } else {
                anchors.push_back({slot, boundary, 0, 0});
                there = !__builtin_add_overflow(boundary, frame_.every, &boundary);
            }
            if (!there) break;
        }
    }
    return anchors;
}

std::vector<Anchor> Keyed::watch(const int64_t* times, const uint8_t* late, int64_t until) const {
    std::vector<Touch> touches;
    for (size_t row = 0; row < slots_.size(); ++row) {
        int64_t time = placed(times[row]);
        if (!(late && late[row]) && time < until) touches.push_back({slots_[row], time});
    }
    std::sort(touches.begin(), touches.end(),
              [](const Touch& a, const Touch& b) { return std::tie(a.slot, a.time) < std::tie(b.slot, b.time); });
    std::vector<Anchor> anchors;
    for (const Touch& touch : touches) {
        int64_t boundary, last = std::min(plus(touch.time, largest_), until);
        if (!next_boundary(touch.time, boundary)) continue;
        if (!anchors.empty() && anchors.back().slot == touch.slot && anchors.back().time >= boundary)
            boundary = plus(anchors.back().time, frame_.every);
        while (boundary <= last) {
            anchors.push_back({touch.slot, boundary, 0, 0});
            if (__builtin_add_overflow(boundary, frame_.every, &boundary)) break;
        }
    }
    return anchors;
}

bool Keyed::pending(int64_t from, int64_t& time) const {
    bool found = false;
    for (const KeyWindow& window : windows_) {
        const Run& rows = window.rows;
        int64_t own;
        if (!rows.size()) continue;
        if (frame_.every) {
            if (!first_boundary(rows, from, own)) continue;
            uint32_t at = rows.find(minus(own, largest_), shape_);
            if (at == rows.size()) continue;
            if (rows.time(at, shape_) >= own && !next_boundary(rows.time(at, shape_), own)) continue;
        } else {
            uint32_t at = rows.find(from, shape_);
            if (at == rows.size()) continue;
            own = rows.time(at, shape_);
        }
        time = found ? std::min(time, own) : own;
        found = true;
    }
    return found;
}

bool Keyed::newest(int64_t& time) const {
    bool found = false;
    auto see = [&](int64_t own) {
        time = found ? std::max(time, own) : own;
        found = true;
    };
    for (const KeyWindow& window : windows_) {
        if (window.rows.size()) see(window.rows.time(window.rows.size() - 1, shape_));
        if (!window.awaited.empty()) see(window.awaited.back().first);
    }
    return found;
}

bool Keyed::is_empty(const Anchor& boundary) const {
    const Run& rows = windows_[boundary.slot].rows;
    uint32_t at = rows.find(minus(boundary.time, largest_), shape_);
    return at == rows.size() || rows.time(at, shape_) >= boundary.time;
}

// --- what has changed ----------------------------------------------------------------------------------

std::vector<int64_t> Keyed::marks(const std::vector<Anchor>& anchors, const std::vector<RecordOutput>& outs,
                                  const int64_t* extra) const {
    std::vector<int64_t> marks(anchors.size()), shown;
    for (size_t i = 0; i < anchors.size(); ++i) {
        if (frame_.every && is_empty(anchors[i])) continue;
        shown.clear();
        for (const RecordOutput& out : outs) out.row(*plan_, i, shown);
        if (extra) shown.push_back(extra[i]);
        marks[i] = static_cast<int64_t>(hash64(shown.data(), shown.size() * sizeof(int64_t), 1) | 1);
    }
    return marks;
}

void Keyed::mark_all() {
    for (KeyWindow& window : windows_)
        for (uint32_t i = 0; i < window.rows.size(); ++i)
            window.rows.row(i, shape_)[Run::kMark] = 2;  // which no hash is
}

void Keyed::changed(const std::vector<Anchor>& anchors, const std::vector<int64_t>& marks, uint8_t* change) {
    for (size_t i = 0; i < anchors.size(); ++i) {
        Run& rows = windows_[anchors[i].slot].rows;
        int64_t* row = rows.row(rows.find(anchors[i].time, anchors[i].tie, shape_), shape_);
        change[i] = row[Run::kMark] != marks[i] ? fresh : same;
        row[Run::kMark] = marks[i];
    }
}

}  // namespace sash
