// Times whose kind is known only at run time: one type for all native kinds, and one for those and Python objects.
#pragma once

#include "base/time.hpp"

namespace sash {

// A native time; the window's format determines whether it is a pair or one word.
struct AnyNumber {
    static constexpr bool objects = false;
    Pair number = 0;

    AnyNumber() = default;
    explicit AnyNumber(Pair pair) : number(pair) {}
    explicit AnyNumber(int64_t word) : number(word) {}
    int64_t word() const { return static_cast<int64_t>(number); }
};

// A native time, or a Python object.
struct AnyTime : AnyNumber {
    static constexpr bool objects = true;
    Ref object;

    using AnyNumber::AnyNumber;
    AnyTime() = default;
    explicit AnyTime(const AnyNumber& native) : AnyNumber(native) {}
    explicit AnyTime(Ref any) : object(std::move(any)) {}
};

inline bool less(const AnyNumber& a, const AnyNumber& b) { return less(a.number, b.number); }
inline bool less(const AnyTime& a, const AnyTime& b) {
    return a.object ? less(a.object, b.object) : less(a.number, b.number);
}
inline bool operator<(const AnyNumber& a, const AnyNumber& b) { return less(a, b); }

template <class Time>
inline constexpr bool is_any_time = std::is_base_of_v<AnyNumber, Time>;
template <class Time>
using IfAnyTime = std::enable_if_t<is_any_time<Time>>;

// Calls `use` with the time in its native type.
template <class Time, class Use, class = IfAnyTime<Time>>
auto with(const TimeFormat& format, const Time& time, Use&& use) {
    if constexpr (Time::objects)
        if (format.kind == TimeKind::object) return use(time.object);
    if (format.kind == TimeKind::pair) return use(time.number);
    return use(time.word());
}

// Reads a time by its kind: `read` is called with a value that selects the type.
template <class Time, class Read>
Time any_time(const TimeFormat& format, Read&& read) {
    if constexpr (Time::objects)
        if (format.kind == TimeKind::object) return Time(read(Ref()));
    if (format.kind == TimeKind::pair) return Time(read(Pair{}));
    return Time(read(int64_t{}));
}
template <class Time>
Time any_time_of(const TimeFormat& format, PyObject* time, const char* argument) {
    return any_time<Time>(format, [&](auto kind) { return time_of<decltype(kind)>(format, time, argument); });
}
template <class Time>
Time any_time_at(const TimeFormat& format, const Column& column, size_t row) {
    return any_time<Time>(format, [&](auto kind) { return time_at<decltype(kind)>(format, column, row); });
}
template <>
inline AnyNumber time_of<AnyNumber>(const TimeFormat& format, PyObject* time, const char* argument) {
    return any_time_of<AnyNumber>(format, time, argument);
}
template <>
inline AnyTime time_of<AnyTime>(const TimeFormat& format, PyObject* time, const char* argument) {
    return any_time_of<AnyTime>(format, time, argument);
}
template <>
inline AnyNumber time_at<AnyNumber>(const TimeFormat& format, const Column& column, size_t row) {
    return any_time_at<AnyNumber>(format, column, row);
}
template <>
inline AnyTime time_at<AnyTime>(const TimeFormat& format, const Column& column, size_t row) {
    return any_time_at<AnyTime>(format, column, row);
}

template <class Time, class = IfAnyTime<Time>>
Ref python_time(const TimeFormat& format, const Time& time) {
    return with(format, time, [&](const auto& t) { return python_time(format, t); });
}

template <class Time, class = IfAnyTime<Time>>
int64_t word_of_any(const TimeFormat& format, const Time& time) {
    return with(format, time, [&](const auto& t) { return Moment<std::decay_t<decltype(t)>>{format, t}.word(); });
}
template <>
struct Moment<AnyNumber> {
    const TimeFormat& format;
    const AnyNumber& time;
    Ref python() const { return python_time(format, time); }
    int64_t word() const { return word_of_any(format, time); }
};
template <>
struct Moment<AnyTime> {
    const TimeFormat& format;
    const AnyTime& time;
    Ref python() const { return python_time(format, time); }
    int64_t word() const { return word_of_any(format, time); }
};

template <class Time, class = IfAnyTime<Time>>
bool far_edge(const TimeFormat& format, const Time& newest, const Size& size, Time& edge) {
    return with(format, newest, [&](const auto& t) {
        std::decay_t<decltype(t)> far{};
        bool some = far_edge(format, t, size, far);
        if (some) edge = Time(std::move(far));
        return some;
    });
}

}  // namespace sash
