#include "keyed_rows.hpp"

#include <new>

namespace sash {

uint32_t Run::find_from(uint32_t at, int64_t time, const RowShape& shape) const {
    if (at >= size_ || this->time(at, shape) >= time) return at;
    uint32_t low = at, step = 1;  // the row at `low` is before it
    while (low + step < size_ && this->time(low + step, shape) < time) low += step, step *= 2;
    uint32_t high = std::min(size_, low + step);
    for (++low; low < high;) {
        uint32_t middle = (low + high) / 2;
        if (this->time(middle, shape) < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void Run::make_room(uint32_t more, const RowShape& shape) {
    if (room_ - head_ - size_ >= more) return;
    if (head_ > size_ / 2 && room_ - size_ >= more) {  // what has left makes room
        std::memmove(words_, words_ + size_t{head_} * shape.stride, size_t{size_} * shape.stride * sizeof(int64_t));
        head_ = 0;
        return;
    }
    uint32_t needed = head_ + size_ + more, room = room_ ? room_ + room_ / 2 + 1 : 2;
    room = std::max(room, needed);
    void* memory = std::realloc(words_, size_t{room} * shape.stride * sizeof(int64_t));
    if (!memory) throw std::bad_alloc();
    words_ = static_cast<int64_t*>(memory);
    room_ = room;
}

void Run::grow(uint32_t more, const RowShape& shape) {
    make_room(more, shape);
    size_ += more;
}

int64_t* Run::open(uint32_t at, const RowShape& shape) {
    make_room(1, shape);
    forget_from(at, shape);
    int64_t* gap = row(at, shape);
    std::memmove(gap + shape.stride, gap, size_t{size_ - at} * shape.stride * sizeof(int64_t));
    ++size_;
    return gap;
}

void Run::close(uint32_t from, uint32_t to, const RowShape& shape) {
    if (from == to) return;
    if (from == 0) {
        dropped_ += to;
        head_ += to;
    } else {
        forget_from(from, shape);
        std::memmove(row(from, shape), row(to, shape), size_t{size_ - to} * shape.stride * sizeof(int64_t));
    }
    size_ -= to - from;
    if (size_ == 0) {
        std::free(std::exchange(words_, nullptr));
        head_ = room_ = 0;
        levels_.reset();
    } else if (size_ < room_ / 4) {
        std::memmove(words_, row(0, shape), size_t{size_} * shape.stride * sizeof(int64_t));
        head_ = 0;
        void* memory = std::realloc(words_, size_t{size_} * shape.stride * sizeof(int64_t));
        if (memory) words_ = static_cast<int64_t*>(memory), room_ = size_;
    }
}

void Run::forget_from(uint32_t at, const RowShape& shape) {
    if (!levels_) return;
    uint64_t block = (dropped_ + at) / shape.block;
    for (Level& level : *levels_) {
        level.count = block <= level.first ? 0 : std::min(level.count, block - level.first);
        block /= kFan;
    }
}

}  // namespace sash
