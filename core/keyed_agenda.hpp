// Which key is due when: keys wait in a heap by the earliest time at which there is something to do for them.
//
// A key's time is a lower bound: it is set when something comes that is due earlier, and looked at again when it is
// reached. So what is not due costs nothing, however many keys there are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sash {

class Agenda {
   public:
    static constexpr int64_t kNever = INT64_MAX;

    // Nothing is kept before the first question; whoever asks first enters all keys.
    bool started() const { return started_; }
    void start() { started_ = true; }

    // Something is due for a key at a time, perhaps earlier than what was known.
    void lower(uint32_t slot, int64_t time) {
        if (!started_) return;
        if (times_.size() <= slot) times_.resize(std::max<size_t>(slot + 1, times_.size() * 3 / 2), kNever);
        if (time >= times_[slot]) return;
        times_[slot] = time;
        heap_.push_back({time, slot});
        std::push_heap(heap_.begin(), heap_.end(), later);
    }
    // Is a key due at a time, or before?
    bool has(uint32_t slot, int64_t time) const { return slot < times_.size() && times_[slot] <= time; }
    void forget(uint32_t slot) {
        if (slot < times_.size()) times_[slot] = kNever;
    }

    // Takes the earliest key that is due at a time or before; false: there is none.
    bool take(int64_t until, uint32_t& slot) {
        if (!first() || heap_.front().time > until) return false;
        slot = heap_.front().slot;
        drop();
        times_[slot] = kNever;
        return true;
    }
    // The time of the earliest key; false: there is none.
    bool earliest(int64_t& time) {
        if (!first()) return false;
        time = heap_.front().time;
        return true;
    }
    size_t bytes() const { return heap_.capacity() * sizeof(Due) + times_.capacity() * sizeof(int64_t); }

   private:
    struct Due {
        int64_t time;
        uint32_t slot;
    };
    static bool later(const Due& a, const Due& b) { return a.time > b.time; }

    void drop() {
        std::pop_heap(heap_.begin(), heap_.end(), later);
        heap_.pop_back();
    }
    // Entries whose key has another time by now are no longer meant.
    bool first() {
        while (!heap_.empty() && times_[heap_.front().slot] != heap_.front().time) drop();
        return !heap_.empty();
    }

    bool started_ = false;
    std::vector<Due> heap_;
    std::vector<int64_t> times_;  // by slot
};

}  // namespace sash
