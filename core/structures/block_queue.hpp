// A queue of fixed blocks, addressed by position: the storage of the in-order structures.
//
// Positions only grow and never move: element p stays at p until it is dropped. Blocks are allocated and freed one at a
// time, so no push or drop ever copies the queue; only the small directory of blocks doubles.
#pragma once

#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace sash {

template <class T>
class BlockQueue {
   public:
    static constexpr uint64_t kBlock = sizeof(T) > 256 ? 16 : 512;

    BlockQueue() : directory_(4) {}
    BlockQueue(const BlockQueue& other) : directory_(other.directory_.size()) {
        begin_ = end_ = other.begin_;
        for (uint64_t p = other.begin_; p < other.end_; ++p) push(T(other[p]));
    }
    BlockQueue& operator=(const BlockQueue&) = delete;
    ~BlockQueue() { drop_front(end_); }

    uint64_t begin() const { return begin_; }
    uint64_t end() const { return end_; }
    T& operator[](uint64_t p) { return block(p)[p % kBlock]; }
    const T& operator[](uint64_t p) const { return block(p)[p % kBlock]; }

    // Part of every loop that inserts: whether the compiler would see that itself depends on what else a file has.
    __attribute__((always_inline)) void push(T value) {
        if (end_ % kBlock == 0 || begin_ == end_) open_block();
        new (&(*this)[end_]) T(std::move(value));
        ++end_;
    }

    // Destroys everything before `p`.
    void drop_front(uint64_t p) {
        while (begin_ < p) {
            (*this)[begin_].~T();
            ++begin_;
            if (begin_ % kBlock == 0 || begin_ == end_) close_block(begin_ - 1);
        }
    }

    // Destroys everything from `p` on.
    void drop_back(uint64_t p) {
        while (end_ > p) {
            --end_;
            (*this)[end_].~T();
            if (end_ % kBlock == 0 || begin_ == end_) close_block(end_);
        }
    }

   private:
    struct Free {
        void operator()(T* memory) const { ::operator delete(memory, std::align_val_t(alignof(T))); }
    };
    using Block = std::unique_ptr<T, Free>;

    T* block(uint64_t p) const { return directory_[(p / kBlock) & (directory_.size() - 1)].get(); }

    void open_block() {
        if (end_ / kBlock - begin_ / kBlock >= directory_.size()) widen();
        Block& slot = directory_[(end_ / kBlock) & (directory_.size() - 1)];
        if (slot) return;
        slot = spare_ ? std::move(spare_)
                      : Block(static_cast<T*>(::operator new(kBlock * sizeof(T), std::align_val_t(alignof(T)))));
    }
    void close_block(uint64_t p) { spare_ = std::move(directory_[(p / kBlock) & (directory_.size() - 1)]); }

    void widen() {
        std::vector<Block> wider(2 * directory_.size());
        for (uint64_t b = begin_ / kBlock; b * kBlock < end_; ++b)
            wider[b & (wider.size() - 1)] = std::move(directory_[b & (directory_.size() - 1)]);
        directory_ = std::move(wider);
    }

    std::vector<Block> directory_;
    Block spare_;
    uint64_t begin_ = 0, end_ = 0;
};

}  // namespace sash
