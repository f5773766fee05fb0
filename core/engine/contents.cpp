#include "engine/contents.hpp"

#include <algorithm>
#include <typeinfo>

#include "monoids/record_of_one.hpp"

namespace sash {

// --- one at a time -------------------------------------------------------------------------------

template <class Time, class Monoid>
bool EngineFor<Time, Monoid>::insert(PyObject* time, PyObject* value) {
    Time t = time_of<Time>(format_, time);
    Entry entry = lifted(monoid(), t, monoid().input(value));
    return change([&] { return put(std::move(t), std::move(entry)); });
}

template <class Time, class Monoid>
bool EngineFor<Time, Monoid>::evict(PyObject* time) {
    Time t = time_of<Time>(format_, time);
    return change([&] { return remove(t); });
}

template <class Time, class Monoid>
size_t EngineFor<Time, Monoid>::evict_until(PyObject* time, bool inclusive) {
    Time t = time_of<Time>(format_, time);
    size_t gone = 0;
    change([&] {
        gone = remove_until(t, inclusive);
        return true;
    });
    return gone;
}

template <class Time, class Monoid>
Ref EngineFor<Time, Monoid>::query(const Bounds& bounds) {
    if (bounds.whole()) return size() ? result(whole(), {}) : empty(bounds);
    Agg agg;
    Range<Time> range = range_of(bounds);
    return part(range, agg) ? result(agg, range) : empty(bounds);
}

template <class Time, class Monoid>
bool EngineFor<Time, Monoid>::contains(PyObject* time) {
    return holds(time_of<Time>(format_, time));
}
template <class Time, class Monoid>
Ref EngineFor<Time, Monoid>::oldest() {
    return size() ? python_time(format_, first()) : none();
}
template <class Time, class Monoid>
Ref EngineFor<Time, Monoid>::newest() {
    return size() ? python_time(format_, last()) : none();
}

// --- what it is ----------------------------------------------------------------------------------

template <class Time, class Monoid>
uint64_t EngineFor<Time, Monoid>::combines() {
    return monoid().combines;
}
template <class Time, class Monoid>
Out EngineFor<Time, Monoid>::out() {
    if constexpr (Monoid::is_record)
        return monoid().shown_as();
    else
        return Monoid::out;
}
template <class Time, class Monoid>
Ref EngineFor<Time, Monoid>::result_kinds() {
    if constexpr (Monoid::is_record) return monoid().result_kinds();
    return none();
}
template <class Time, class Monoid>
std::string_view EngineFor<Time, Monoid>::monoid_name() {
    if constexpr (Monoid::is_erased)
        return monoid().name();
    else
        return Monoid::name;
}
template <class Time, class Monoid>
bool EngineFor<Time, Monoid>::wide() {
    return monoid_name() == SumWide::name;
}
template <class Time, class Monoid>
bool EngineFor<Time, Monoid>::is_like(Engine& other) {
    return typeid(other) == typeid(*this) && static_cast<EngineFor&>(other).monoid_name() == monoid_name();
}

// --- batches -------------------------------------------------------------------------------------

// Rows that would fail half way through are found before the first is inserted.
template <class Time, class Monoid>
void EngineFor<Time, Monoid>::require_rows(const Column& times, const Column& values, size_t row) {
    if constexpr (Monoid::validates)
        for (size_t i = row; i < values.size; ++i) monoid().input_at(values, i);
    if (any_order() || row >= times.size) return;
    Time before = time_at<Time>(format_, times, row);
    if (size() && less(before, last())) throw TooEarly{AnyTime(before), AnyTime(last())};
    for (size_t i = row + 1; i < times.size; ++i) {
        Time time = time_at<Time>(format_, times, i);
        if (less(time, before)) throw TooEarly{AnyTime(time), AnyTime(before)};
        before = std::move(time);
    }
}

template <class Time, class Monoid>
void EngineFor<Time, Monoid>::prepare(Batch& batch) {
    if (batch.prepared) return;
    require_rows(batch.times, batch.values, 0);
    if constexpr (!Monoid::may_throw)
        if (in_bulk()) find_order(batch);
    batch.prepared = true;
}

// A stable order by time: rows of one time stay in order of arrival.
template <class Time, class Monoid>
void EngineFor<Time, Monoid>::find_order(Batch& batch) {
    size_t size = batch.times.size, ascending = 1;
    auto time = [&](size_t row) { return time_at<Time>(format_, batch.times, row); };
    for (; ascending < size && !less(time(ascending), time(ascending - 1)); ++ascending)
        if (!less(time(ascending - 1), time(ascending))) batch.ties = true;
    if (ascending >= size) return;
    if (size > UINT32_MAX) fail(ErrorKind::argument, "times must have fewer than 2**32 rows.", "times");
    std::vector<std::pair<Time, uint32_t>> rows(size);
    for (size_t row = 0; row < size; ++row) rows[row] = {time(row), static_cast<uint32_t>(row)};
    std::sort(rows.begin(), rows.end());
    batch.ties = true;
    batch.order.resize(size);
    for (size_t i = 0; i < size; ++i) batch.order[i] = rows[i].second;
}

// Insert all, drop, one query: the whole call is one round.
template <class Time, class Monoid>
bool EngineFor<Time, Monoid>::slide_to_end(Slide& slide, Ref& result) {
    require_rows(slide.times, slide.values, slide.row);
    return change([&] {
        for (; slide.row < slide.times.size; ++slide.row) {
            Time time = time_at<Time>(format_, slide.times, slide.row);
            Entry entry = lifted(monoid(), time, slide.values, slide.row);
            if (!put(std::move(time), std::move(entry))) return false;
        }
        Time edge;
        if (slide.count)
            while (size() > slide.count) remove_oldest();
        else if (size() && far_edge(format_, last(), slide.size, edge))
            remove_until(edge, true);
        result = size() ? this->result(whole(), slid(slide)) : monoid().empty();
        return true;
    });
}

// --- results -------------------------------------------------------------------------------------

// The result of a range; its open ends are the oldest and the newest time.
template <class Time, class Monoid>
Ref EngineFor<Time, Monoid>::result(const Agg& agg, const Range<Time>& range) {
    if constexpr (Monoid::takes_time) {
        if (monoid().timed()) {
            Time start = range.start ? *range.start : first(), stop = range.stop ? *range.stop : last();
            Moment<Time> from{format_, start}, to{format_, stop};
            if constexpr (Monoid::is_record)
                return monoid().result(agg, {from.word(), to.word()});
            else
                return monoid().result(agg, from.python(), to.python());
        }
    }
    return monoid().result(agg);
}

// The result of an empty range, with None for an open end.
template <class Time, class Monoid>
Ref EngineFor<Time, Monoid>::empty(const Bounds& bounds) {
    if constexpr (Monoid::takes_time) {
        Ref start = bounds.start ? Ref::borrow(bounds.start) : none();
        return monoid().empty(start, bounds.stop ? Ref::borrow(bounds.stop) : none());
    } else {
        return monoid().empty();
    }
}

template <class Time, class Monoid>
void EngineFor<Time, Monoid>::store_timed(Output& out, size_t row, const Slide& slide, const Agg& agg) {
    if constexpr (Monoid::takes_time) {
        Range<Time> range = slid(slide);
        Time start = range.start ? *range.start : first(), stop = last();
        Moment<Time> from{format_, start}, to{format_, stop};
        if constexpr (Monoid::is_record)
            monoid().store(out, row, agg, {from.word(), to.word()});
        else
            monoid().store(out, row, agg, from.python(), to.python());
    }
}

// The range of a slide's current round.
template <class Time, class Monoid>
Range<Time> EngineFor<Time, Monoid>::slid(const Slide& slide) {
    Range<Time> range;
    Time edge;
    if constexpr (Monoid::takes_time)
        if (monoid().timed() && !slide.count && far_edge(format_, last(), slide.size, edge)) range.start = edge;
    return range;
}

template <class Time, class Monoid>
Range<Time> EngineFor<Time, Monoid>::range_of(const Bounds& bounds) const {
    Range<Time> range;
    if (bounds.start) range.start = time_of<Time>(format_, bounds.start, "start");
    if (bounds.stop) range.stop = time_of<Time>(format_, bounds.stop, "stop");
    range.start_inside = bounds.start_inside;
    range.stop_inside = bounds.stop_inside;
    return range;
}

// --- contents ------------------------------------------------------------------------------------

// Two lists, times and what goes with them; entries of one time that stand in several parts are combined.
template <class Time, class Monoid>
Ref EngineFor<Time, Monoid>::scan(const Bounds& bounds, bool reverse, size_t limit, Shown shown) {
    Ref times = python_list(), values = python_list();
    Monoid& combining = monoid();
    uint64_t combines = combining.combines;
    std::optional<Time> at;
    {
        Fold<Monoid> fold(combining);
        auto emit = [&] {
            append(times, python_time(format_, *at));
            if (shown == Shown::times) return;
            append(values, shown == Shown::states ? combining.state(fold.get()) : result(fold.get(), {at, at}));
        };
        each(range_of(bounds), reverse, [&](const Time& time, const Entry& entry) {
            bool same = at && !(reverse ? less(time, *at) : less(*at, time));
            if (!same) {
                if (at) emit();
                at.reset();
                if (static_cast<size_t>(PyList_GET_SIZE(times.get())) == limit) return false;
                at = time;
                fold.clear();
            }
            reverse ? fold.prepend(combining.of(entry)) : fold.append_entry(entry);
            return true;
        });
        if (at) emit();
    }
    combining.combines = combines;
    return python_pair(times, values);
}

template <class Time, class Monoid>
Contents EngineFor<Time, Monoid>::freeze() {
    Ref both = scan(Bounds{}, false, SIZE_MAX, Shown::states);
    return {Ref::borrow(PyTuple_GET_ITEM(both.get(), 0)), Ref::borrow(PyTuple_GET_ITEM(both.get(), 1))};
}

template <class Time, class Monoid>
bool EngineFor<Time, Monoid>::load(const Contents& contents) {
    Py_ssize_t size = PyList_Size(contents.times.get());
    if (PyList_Size(contents.states.get()) != size)
        fail(ErrorKind::argument, "states must be as many as times.", "states");
    return change([&] {
        for (Py_ssize_t i = 0; i < size; ++i) {
            Time time = time_of<Time>(format_, PyList_GET_ITEM(contents.times.get(), i));
            if (!put(std::move(time), monoid().thaw(PyList_GET_ITEM(contents.states.get(), i)))) return false;
        }
        return true;
    });
}

template <class Time, class Monoid>
bool EngineFor<Time, Monoid>::packs() {
    return !Monoid::may_throw;
}

template <class Time, class Monoid>
bool EngineFor<Time, Monoid>::pack(Packed& packed) {
    if constexpr (Monoid::may_throw) {
        return false;
    } else {
        packed.rows = size();
        packed.times = python_bytes(packed.rows * TimeBytes<Time>::size(format_));
        EntryWriter<Monoid> entries(monoid(), packed.rows);
        char* times = PyBytes_AS_STRING(packed.times.get());
        std::optional<Time> at;
        Entry held{};
        auto emit = [&] {
            TimeBytes<Time>::write(format_, *at, times);
            times += TimeBytes<Time>::size(format_);
            entries.write(held);
        };
        bool holds = true;
        each(Range<Time>{}, false, [&](const Time& time, const Entry& entry) {
            if (at && !less(*at, time)) return holds = monoid().merge(held, entry);
            if (at) emit();
            at = time;
            held = Entry(entry);
            return true;
        });
        if (at && holds) emit();
        packed.entries = entries.bytes();
        return holds;
    }
}

template <class Time, class Monoid>
void EngineFor<Time, Monoid>::unpack(const PackedView& packed) {
    if constexpr (!Monoid::may_throw) {
        PackedRows<Time, Monoid> rows(packed, format_, monoid());
        if (!rows.sound()) fail(ErrorKind::corrupt, "data has times or entries that no window can have.", "data");
        put_all(rows);
    }
}

template <class Time, class Monoid>
void EngineFor<Time, Monoid>::visit(void (*visitor)(PyObject*, void*), void* argument) {
    if (format_.codec) visitor(format_.codec.get(), argument);
}

// --- for which times and monoids -----------------------------------------------------------------

template class EngineFor<int64_t, SumInt64>;
template class EngineFor<int64_t, SumFloat64>;
template class EngineFor<int64_t, Count>;
template class EngineFor<int64_t, Min>;
template class EngineFor<int64_t, Max>;
template class EngineFor<int64_t, Geomean>;
template class EngineFor<int64_t, Bloom>;
template class EngineFor<int64_t, SmallRecord>;
template class EngineFor<int64_t, WideRecord>;
template class EngineFor<int64_t, MeanOfIntegers>;
template class EngineFor<int64_t, MeanOfReals>;
template class EngineFor<int64_t, VarianceAlone>;
template class EngineFor<int64_t, Objects>;
template class EngineFor<AnyTime, Objects>;
template class EngineFor<AnyNumber, AnyMonoid>;

}  // namespace sash
