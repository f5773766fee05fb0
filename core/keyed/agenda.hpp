// Which key is due when: keys wait by the earliest time at which there is something to do for them.
//
// A key's time is a lower bound: it is set when something comes that is due earlier, and looked at again when it is
// reached. So what is not due costs nothing, however many keys there are.
//
// They wait in a radix heap: since time only goes on, an entry lies in the bucket of the highest bit in which it differs
// from the last time that was taken, and moves to lower buckets a few times until it is due.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sash {

class Agenda {
   public:
    static constexpr int64_t kNever = INT64_MAX;
    // The last instant of all is a time too, and is entered as the one before it: whoever takes a key until then may find
    // nothing to do yet, so all that are due are taken before any is entered again.
    static constexpr int64_t as_entered(int64_t time) { return std::min(time, kNever - 1); }

    // Nothing is kept before the first question; whoever asks first enters all keys.
    bool started() const { return started_; }
    void start() { started_ = true; }

    // Something is due for a key at a time, perhaps earlier than what was known.
    void lower(uint32_t slot, int64_t time) {
        if (!started_) return;
        time = as_entered(time);
        if (times_.size() <= slot) times_.resize(std::max<size_t>(slot + 1, times_.size() * 3 / 2), kNever);
        if (time >= times_[slot]) return;
        times_[slot] = time;
        put({time, slot});
    }
    // Is a key due at a time, or before?
    bool has(uint32_t slot, int64_t time) const { return slot < times_.size() && times_[slot] <= time; }
    void forget(uint32_t slot) {
        if (slot < times_.size()) times_[slot] = kNever;
    }

    // Takes a key that is due at a time or before; false: there is none.
    bool take(int64_t until, uint32_t& slot) {
        for (uint32_t b; find(until, b);) {
            if (b > 0) {
                sift(b);
                continue;
            }
            std::vector<Due>& ready = buckets_[0].entries;
            for (size_t i = ready.size(); i-- > 0;) {
                Due due = ready[i];
                bool meant = is_meant(due);
                if (meant && due.time > until) continue;
                ready[i] = ready.back();
                ready.pop_back();
                if (!meant) continue;
                times_[due.slot] = kNever;
                slot = due.slot;
                return true;
            }
            buckets_[0].least = kNever;  // what is left is later; its true least may be lower than nothing at all
            for (const Due& due : ready) buckets_[0].least = std::min(buckets_[0].least, due.time);
        }
        return false;
    }
    // A time before which no key is due; false: there are none. Taking what is due then finds one, or a later time.
    bool earliest(int64_t& time) const {
        time = kNever;
        bool some = false;
        for (const Bucket& bucket : buckets_) {
            if (bucket.entries.empty()) continue;
            time = std::min(time, bucket.least);
            some = true;
        }
        return some;
    }
    size_t bytes() const {
        size_t entries = 0;
        for (const Bucket& bucket : buckets_) entries += bucket.entries.capacity();
        return entries * sizeof(Due) + times_.capacity() * sizeof(int64_t);
    }

   private:
    struct Due {
        int64_t time;
        uint32_t slot;
    };
    struct Bucket {
        std::vector<Due> entries;
        int64_t least = kNever;
    };

    // An entry whose key has another time by now is no longer meant.
    bool is_meant(const Due& due) const { return times_[due.slot] == due.time; }

    void put(Due due) {
        uint64_t differs = static_cast<uint64_t>(due.time) ^ static_cast<uint64_t>(last_);
        uint32_t b = due.time <= last_ ? 0 : 64 - static_cast<uint32_t>(__builtin_clzll(differs));
        buckets_[b].entries.push_back(due);
        buckets_[b].least = std::min(buckets_[b].least, due.time);
    }
    // The first bucket that may have something due; those behind it are all later.
    bool find(int64_t until, uint32_t& b) const {
        for (b = 0; b < kBuckets; ++b)
            if (!buckets_[b].entries.empty() && buckets_[b].least <= until) return true;
        return false;
    }
    // Its entries go to lower buckets, of which the first has what is due at its least time.
    void sift(uint32_t b) {
        Bucket bucket;
        std::swap(bucket, buckets_[b]);
        last_ = bucket.least;
        for (const Due& due : bucket.entries)
            if (is_meant(due)) put(due);
        bucket.entries.clear();
        if (buckets_[b].entries.empty()) buckets_[b].entries.swap(bucket.entries);  // its memory is used again
    }

    static constexpr uint32_t kBuckets = 65;
    bool started_ = false;
    int64_t last_ = INT64_MIN;
    Bucket buckets_[kBuckets];
    std::vector<int64_t> times_;  // by slot
};

}  // namespace sash
