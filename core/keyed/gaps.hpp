// How far apart the rows of a subtree lie: its first and last time, and the widest gap between neighbours. This is what
// finds the two ends of a session without looking at the rows between them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sash {

// From one time to a later one; the whole range of int64 has room in it.
inline uint64_t distance(int64_t from, int64_t to) { return static_cast<uint64_t>(to) - static_cast<uint64_t>(from); }

struct Gaps {
    static constexpr uint32_t kWords = 3;  // beside the record of a summary
    int64_t first = 0, last = 0;
    uint64_t widest = 0;
    bool any = false;

    // Rows that lie side by side, in order; a row starts with its time.
    void add_rows(const int64_t* row, size_t count, uint32_t stride) {
        if (!count) return;
        if (!any) first = last = *row;
        any = true;
        for (const int64_t* end = row + count * stride; row < end; row += stride) {
            widest = std::max(widest, distance(last, *row));
            last = *row;
        }
    }
    void add(const Gaps& next) {
        if (!next.any) return;
        widest = any ? std::max({widest, next.widest, distance(last, next.first)}) : next.widest;
        if (!any) first = next.first;
        last = next.last;
        any = true;
    }

    static Gaps read(const int64_t* words) { return {words[0], words[1], static_cast<uint64_t>(words[2]), true}; }
    void write(int64_t* words) const {
        words[0] = first;
        words[1] = last;
        words[2] = static_cast<int64_t>(widest);
    }
    bool operator==(const Gaps& other) const {
        return any == other.any && first == other.first && last == other.last && widest == other.widest;
    }
};

}  // namespace sash
