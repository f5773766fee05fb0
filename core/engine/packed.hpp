// A window's native contents as bytes, to write and to read.
//
// Entries that are plain memory are copied unchanged and read in place; other monoids have write(bytes, entry) and
// read(at, end, entry).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "structures/contract.hpp"

namespace sash {

// Native contents as bytes: times, then entries, in the core's format. Two bytes objects are written; bytes are read in
// place.
struct Packed {
    Ref times, entries;
    size_t rows = 0;
};
struct PackedView {
    std::string_view times, entries;
    size_t rows = 0;
};

inline Ref python_bytes(size_t size, const char* data = nullptr) {
    return Ref::checked(PyBytes_FromStringAndSize(data, static_cast<Py_ssize_t>(size)));
}

template <class Monoid, bool plain = std::is_trivially_copyable_v<typename Monoid::Entry>>
class EntryWriter {
   public:
    using Entry = typename Monoid::Entry;
    EntryWriter(Monoid&, size_t rows)
        : bytes_(python_bytes(rows * sizeof(Entry))), at_(PyBytes_AS_STRING(bytes_.get())) {}
    void write(const Entry& entry) {
        std::memcpy(at_, &entry, sizeof(Entry));
        at_ += sizeof(Entry);
    }
    Ref bytes() { return std::move(bytes_); }

   private:
    Ref bytes_;
    char* at_;
};
template <class Monoid>
class EntryWriter<Monoid, false> {
   public:
    EntryWriter(Monoid& monoid, size_t) : monoid_(monoid) {}
    void write(const typename Monoid::Entry& entry) { monoid_.write(bytes_, entry); }
    Ref bytes() { return python_bytes(bytes_.size(), bytes_.data()); }

   private:
    Monoid& monoid_;
    std::string bytes_;
};

// Entries read from bytes: as many as there are rows, or it is not sound.
template <class Monoid, bool plain = std::is_trivially_copyable_v<typename Monoid::Entry>>
class EntryReader {
   public:
    using Entry = typename Monoid::Entry;
    EntryReader(const PackedView& packed, Monoid&) : bytes_(packed.entries) {}
    bool has(size_t rows) const { return rows <= bytes_.size() && bytes_.size() == rows * sizeof(Entry); }
    Entry operator[](size_t i) const {
        Entry entry;
        std::memcpy(&entry, bytes_.data() + i * sizeof(Entry), sizeof(Entry));
        return entry;
    }
    void copy(size_t from, size_t count, Entry* into) const {
        std::memcpy(static_cast<void*>(into), bytes_.data() + from * sizeof(Entry), count * sizeof(Entry));
    }

   private:
    std::string_view bytes_;
};
template <class Monoid>
class EntryReader<Monoid, false> {
   public:
    using Entry = typename Monoid::Entry;
    EntryReader(const PackedView& packed, Monoid& monoid) {
        const char *at = packed.entries.data(), *end = at + packed.entries.size();
        while (entries_.size() < packed.rows && at < end) {
            Entry entry;
            if (!monoid.read(at, end, entry)) break;
            entries_.push_back(std::move(entry));
        }
        whole_ = at == end;
    }
    bool has(size_t rows) const { return whole_ && entries_.size() == rows; }
    Entry operator[](size_t i) const { return Entry(entries_[i]); }
    void copy(size_t from, size_t count, Entry* into) const {
        for (size_t i = 0; i < count; ++i) into[i] = Entry(entries_[from + i]);
    }

   private:
    std::vector<Entry> entries_;
    bool whole_ = false;
};

// A native time as bytes.
template <class Time>
struct TimeBytes {
    static size_t size(const TimeFormat&) { return sizeof(Time); }
    static void write(const TimeFormat&, const Time& time, char* bytes) { std::memcpy(bytes, &time, sizeof(Time)); }
    static Time read(const TimeFormat&, const char* bytes) {
        Time time;
        std::memcpy(static_cast<void*>(&time), bytes, sizeof(Time));
        return time;
    }
    static bool is_sound(const TimeFormat& format, const Time& time) {
        if constexpr (std::is_same_v<Time, int64_t>) return format.kind != TimeKind::real || is_real_time(time);
        return true;
    }
};

template <>
struct TimeBytes<AnyNumber> {
    static size_t size(const TimeFormat& format) {
        return format.kind == TimeKind::pair ? sizeof(Pair) : sizeof(int64_t);
    }
    static void write(const TimeFormat& format, const AnyNumber& time, char* bytes) {
        if (format.kind == TimeKind::pair) return TimeBytes<Pair>::write(format, time.number, bytes);
        TimeBytes<int64_t>::write(format, time.word(), bytes);
    }
    static AnyNumber read(const TimeFormat& format, const char* bytes) {
        if (format.kind == TimeKind::pair) return AnyNumber(TimeBytes<Pair>::read(format, bytes));
        return AnyNumber(TimeBytes<int64_t>::read(format, bytes));
    }
    static bool is_sound(const TimeFormat& format, const AnyNumber& time) {
        return format.kind != TimeKind::real || is_real_time(time.word());
    }
};

// What a structure sees of them: a run without ties.
template <class Time, class Monoid>
class PackedRows {
   public:
    using Entry = typename Monoid::Entry;
    using Bytes = TimeBytes<Time>;
    PackedRows(const PackedView& packed, const TimeFormat& format, Monoid& monoid)
        : packed_(packed), format_(format), monoid_(monoid), entries_(packed, monoid) {}

    size_t size() const { return packed_.rows; }
    bool has_ties() const { return false; }
    Time time(size_t i) const { return Bytes::read(format_, packed_.times.data() + i * Bytes::size(format_)); }
    Entry entry(size_t i) const { return entries_[i]; }
    void copy(size_t from, uint32_t count, Time* times, Entry* into) const {
        if constexpr (is_any_time<Time>)
            for (uint32_t i = 0; i < count; ++i) times[i] = time(from + i);
        else
            std::memcpy(static_cast<void*>(times), packed_.times.data() + from * sizeof(Time), count * sizeof(Time));
        entries_.copy(from, count, into);
    }

    // Whatever the bytes are, what is built from them is a sound window or nothing.
    bool sound() const {
        if (packed_.times.size() != size() * Bytes::size(format_) || !entries_.has(size())) return false;
        bool sound = true;
        for (size_t i = 1; i < size(); ++i) sound &= less(time(i - 1), time(i));
        for (size_t i = 0; i < size(); ++i) sound &= Bytes::is_sound(format_, time(i));
        if constexpr (Monoid::checks_entries)
            for (size_t i = 0; i < size(); ++i) sound &= monoid_.valid(entries_[i]);
        return sound;
    }

   private:
    const PackedView& packed_;
    const TimeFormat& format_;
    Monoid& monoid_;
    EntryReader<Monoid> entries_;
};

}  // namespace sash
