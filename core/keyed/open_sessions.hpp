// What is left of the rows behind the horizon: of each key at most one session, which rows may still extend, as its
// start, its last event and the record of its rows. So state is bounded per open session, however many rows it had.
#pragma once

#include <vector>

#include "monoids/plan.hpp"

namespace sash {

class OpenSessions {
   public:
    explicit OpenSessions(uint32_t record_words) : words_(kRecord + record_words) {}

    bool has(uint32_t slot) const { return (size_t{slot} + 1) * words_ <= all_.size() && at(slot)[kRecord + kRows]; }
    int64_t start(uint32_t slot) const { return at(slot)[kStart]; }
    int64_t last(uint32_t slot) const { return at(slot)[kLast]; }
    const int64_t* record(uint32_t slot) const { return at(slot) + kRecord; }

    // Words of a record; those of `put` are copied.
    void put(uint32_t slot, int64_t start, int64_t last, const int64_t* record) {
        if (!has(slot)) ++count_;
        size_t needed = (size_t{slot} + 1) * words_;
        if (all_.size() < needed) all_.resize(std::max(needed, all_.size() * 3 / 2 / words_ * words_));
        int64_t* session = at(slot);
        session[kStart] = start;
        session[kLast] = last;
        std::copy_n(record, words_ - kRecord, session + kRecord);
    }
    // More rows, after those that there are.
    void join(uint32_t slot, const Plan& plan, int64_t last, const int64_t* record) {
        at(slot)[kLast] = last;
        plan.join(at(slot) + kRecord, record, 0, 1);
    }
    void drop(uint32_t slot) {
        if (!has(slot)) return;
        std::fill_n(at(slot), words_, 0);
        --count_;
    }

    size_t count() const { return count_; }
    size_t bytes() const { return all_.capacity() * sizeof(int64_t) + changed.capacity() * sizeof(uint32_t); }

    std::vector<uint32_t> changed;  // keys, since the last expiry began

   private:
    static constexpr size_t kStart = 0, kLast = 1, kRecord = 2;
    int64_t* at(uint32_t slot) { return all_.data() + size_t{slot} * words_; }
    const int64_t* at(uint32_t slot) const { return all_.data() + size_t{slot} * words_; }

    size_t words_, count_ = 0;
    std::vector<int64_t> all_;  // by slot, as far as needed
};

}  // namespace sash
