// The nodes at both edges of a tree, by level; at the root's level they are the same. With the number of entries, and
// the number of appends to the current right finger, they are all that a tree stores besides its nodes.
#pragma once

#include <cstring>
#include <utility>

#include "tree/nodes.hpp"

namespace sash::tree {

// Room for any height, where there are few trees and every nanosecond counts.
class FixedSpines {
   public:
    size_t size = 0;
    uint32_t appends = 0;

    uint32_t height() const { return height_; }
    Node* root() const { return right_[height_]; }
    Node*& left(uint32_t level) { return left_[level]; }
    Node*& right(uint32_t level) { return right_[level]; }
    Node* left(uint32_t level) const { return left_[level]; }
    Node* right(uint32_t level) const { return right_[level]; }

    // A tree of one leaf, or of none.
    void reset(Node* leaf) {
        height_ = 0;
        left_[0] = right_[0] = leaf;
    }
    // A tree that stands; `child(node, first)` is the first or last child of an inner node.
    template <class Child>
    void reset(Node* root, uint32_t height, Child&& child) {
        height_ = height;
        left_[height] = right_[height] = root;
        for (uint32_t level = height; level > 0; --level) {
            left_[level - 1] = child(left_[level], true);
            right_[level - 1] = child(right_[level], false);
        }
    }
    // A root above two nodes.
    void raise(Node* left, Node* right, Node* root) {
        left_[height_] = left;
        right_[height_] = right;
        ++height_;
        left_[height_] = right_[height_] = root;
    }
    // The root's only child is the root.
    void lower(Node* child) {
        --height_;
        left_[height_] = right_[height_] = child;
    }

   private:
    Node* left_[kMostLevels] = {};
    Node* right_[kMostLevels] = {};
    uint32_t height_ = 0;
};

// Sixteen bytes, where there are millions of trees and most of them are one leaf: the pointer is that leaf, or for a
// taller tree a block with both spines.
class SmallSpines {
   public:
    uint32_t size = 0;
    uint32_t appends : 24;

    SmallSpines() : appends(0), height_(0) {}
    SmallSpines(SmallSpines&& other) noexcept : SmallSpines() { swap(other); }
    SmallSpines& operator=(SmallSpines&& other) noexcept {
        swap(other);
        return *this;
    }
    ~SmallSpines() {
        if (height_) std::free(pointer_);
    }

    uint32_t height() const { return height_; }
    Node* root() const { return right(height_); }
    Node*& left(uint32_t level) { return height_ ? pairs()[level].left : pointer_; }
    Node*& right(uint32_t level) { return height_ ? pairs()[level].right : pointer_; }
    Node* left(uint32_t level) const { return const_cast<SmallSpines*>(this)->left(level); }
    Node* right(uint32_t level) const { return const_cast<SmallSpines*>(this)->right(level); }

    const void* memory() const { return pointer_; }  // what is read first

    void reset(Node* leaf) {
        if (height_) std::free(pointer_);
        height_ = 0;
        pointer_ = leaf;
    }
    void raise(Node* left, Node* right, Node* root) {
        uint32_t height = height_ + 1;
        // Memory for a few levels at once; most trees have one or two.
        if (height % kStep == 1) {
            void* old = height_ ? pointer_ : nullptr;
            void* grown = std::realloc(old, (height + kStep) * sizeof(Pair));
            if (!grown) throw std::bad_alloc();
            pointer_ = static_cast<Node*>(grown);
        }
        height_ = height;
        pairs()[height - 1] = {left, right};
        pairs()[height] = {root, root};
    }
    void lower(Node* child) {
        if (height_ == 1) return reset(child);
        --height_;
        pairs()[height_] = {child, child};
    }
    size_t bytes() const { return height_ ? ((height_ - 1) / kStep * kStep + 1 + kStep) * sizeof(Pair) : 0; }

   private:
    static constexpr uint32_t kStep = 2;
    struct Pair {
        Node *left, *right;
    };
    Pair* pairs() const { return reinterpret_cast<Pair*>(pointer_); }
    void swap(SmallSpines& other) {
        std::swap(size, other.size);
        uint32_t own = appends, own_height = height_;
        appends = other.appends, other.appends = own & 0xFFFFFF;
        height_ = other.height_, other.height_ = own_height & 0xFF;
        std::swap(pointer_, other.pointer_);
    }

    uint32_t height_ : 8;
    Node* pointer_ = nullptr;
};
static_assert(sizeof(SmallSpines) == 16);

}  // namespace sash::tree
