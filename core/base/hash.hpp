// A 64-bit hash of bytes at the speed of memory: the checksum of states, and the stable hash of strings.
//
// Four lanes run in parallel, so that no multiplication waits for the previous one. Each step is a bijection of its
// lane and of its word, and so is the rest of the way to the result: two inputs that differ in one word never collide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sash {

inline uint64_t mixed(uint64_t x) {  // the finalizer of splitmix64
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

inline uint64_t hash_step(uint64_t lane, uint64_t word) {
    lane ^= word;
    return ((lane << 29) | (lane >> 35)) * 0x9FB21C651E98DF25u;
}

inline uint64_t hash64(const void* data, size_t size, uint64_t seed) {
    constexpr size_t kLanes = 4, kBlock = kLanes * sizeof(uint64_t);
    const char* at = static_cast<const char*>(data);
    uint64_t lanes[kLanes], words[kLanes];
    for (size_t i = 0; i < kLanes; ++i) lanes[i] = mixed(seed + i);
    auto take = [&] {
        for (size_t i = 0; i < kLanes; ++i) lanes[i] = hash_step(lanes[i], words[i]);
    };
    size_t left = size;
    for (; left >= kBlock; left -= kBlock, at += kBlock) {
        std::memcpy(words, at, kBlock);
        take();
    }
    std::memset(words, 0, kBlock);
    if (left) std::memcpy(words, at, left);
    take();
    uint64_t hash = mixed(size);
    for (uint64_t lane : lanes) hash = mixed(hash ^ lane);
    return hash;
}

}  // namespace sash
