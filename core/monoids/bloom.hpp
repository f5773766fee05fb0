// The Bloom filter, the paper's expensive monoid.
#pragma once

#include "monoids/monoids.hpp"

namespace sash {

// A bit set of 2^14 bits. An entry is only the hash of its value; its bits are set when it is folded in. A time with
// several values has a bit set.
struct Bloom : Counted {
    static constexpr size_t kBits = size_t{1} << 14;
    static constexpr int kHashes = 4;
    using Bits = std::array<uint64_t, kBits / 64>;

    using Input = uint64_t;
    using Agg = Bits;
    struct Entry {
        uint64_t hash = 0;
        std::unique_ptr<Bits> bits;  // only for several values
        Entry() = default;
        explicit Entry(uint64_t h) : hash(h) {}
        Entry(const Entry& other) : hash(other.hash), bits(other.bits ? new Bits(*other.bits) : nullptr) {}
        Entry(Entry&&) noexcept = default;
        Entry& operator=(Entry&&) noexcept = default;
    };
    static constexpr const char* name = "bloom";
    static constexpr bool commutes = true;
    static constexpr bool validates = true;        // not everything has a stable hash
    static constexpr uint32_t leaf_capacity = 32;  // setting an entry's bits is cheap, joining two bit sets is not
    static constexpr uint32_t fanout = 4;
    static constexpr Out out = Out::object;

    explicit Bloom(const MonoidSpec&) : wrap_(callbacks::bloom_class()) {}

    static Input input(PyObject* value) { return stable_hash(value); }
    static Input input_at(const Column& column, size_t row) {
        if (column.words) return mixed(static_cast<uint64_t>(column.words[row]));
        if (column.reals) return input(python_float(column.reals[row]).get());
        return input(PyList_GET_ITEM(column.objects, static_cast<Py_ssize_t>(row)));
    }
    static Entry lift(Input hash) { return Entry(hash); }

    // Double hashing: the i-th bit is h1 + i * h2.
    static void set(Bits& bits, uint64_t hash) {
        uint64_t step = (hash >> 32) | 1;
        for (int i = 0; i < kHashes; ++i, hash += step) bits[(hash % kBits) / 64] |= uint64_t{1} << (hash % 64);
    }
    static void unite(Bits& bits, const Bits& other) {
        for (size_t i = 0; i < bits.size(); ++i) bits[i] |= other[i];
    }
    static void add(Bits& bits, const Entry& entry) {
        if (entry.bits)
            unite(bits, *entry.bits);
        else
            set(bits, entry.hash);
    }
    bool merge(Entry& entry, const Entry& more) {
        ++combines;
        if (!entry.bits) entry.bits.reset(new Bits(of(entry)));
        add(*entry.bits, more);
        return true;
    }
    static Agg of(const Entry& entry) {
        Bits bits{};
        add(bits, entry);
        return bits;
    }
    void append(Agg& agg, const Agg& other) { ++combines, unite(agg, other); }
    void prepend(const Agg& other, Agg& agg) { append(agg, other); }
    void append_entry(Agg& agg, const Entry& entry) { ++combines, add(agg, entry); }
    void prepend_entry(const Entry& entry, Agg& agg) { append_entry(agg, entry); }

    static Ref bytes(const Bits& bits) {
        return Ref::checked(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(bits.data()), sizeof(Bits)));
    }
    Ref result(const Agg& agg) const { return call(wrap_.get(), bytes(agg).get()); }
    Ref empty() const { return result(Bits{}); }
    void store(Output& out, size_t row, const Agg& agg) const {
        succeed(PyList_SetItem(out.objects, static_cast<Py_ssize_t>(row), result(agg).release()));
    }
    static Ref state(const Agg& agg) { return bytes(agg); }
    static Entry thaw(PyObject* state) {
        if (!PyBytes_Check(state) || PyBytes_GET_SIZE(state) != sizeof(Bits)) fail_value(state, "be a bit set");
        Entry entry;
        entry.bits.reset(new Bits);
        std::memcpy(entry.bits->data(), PyBytes_AS_STRING(state), sizeof(Bits));
        return entry;
    }
    static bool same(const Agg& a, const Agg& b) { return a == b; }

    static void write(std::string& bytes, const Entry& entry) {
        bytes.push_back(entry.bits ? 1 : 0);
        if (entry.bits)
            bytes.append(reinterpret_cast<const char*>(entry.bits->data()), sizeof(Bits));
        else
            bytes.append(reinterpret_cast<const char*>(&entry.hash), sizeof entry.hash);
    }
    static bool read(const char*& at, const char* end, Entry& entry) {
        bool bits = *at++ == 1;
        size_t size = bits ? sizeof(Bits) : sizeof(uint64_t);
        if (static_cast<size_t>(end - at) < size) return false;
        if (bits) entry.bits.reset(new Bits);
        std::memcpy(bits ? static_cast<void*>(entry.bits->data()) : &entry.hash, at, size);
        at += size;
        return true;
    }

   private:
    Ref wrap_;
};

}  // namespace sash
