// The part of an engine that does not depend on its structure: times and values from Python, results and contents to it.
//
// It is compiled once for each kind of time and monoid (contents.cpp), and reaches the structure through virtual calls.
#pragma once

#include "base/function_ref.hpp"
#include "engine/engine.hpp"
#include "monoids/erased.hpp"
#include "monoids/natives.hpp"

namespace sash {

template <class Time, class Monoid>
class EngineFor : public Engine {
   public:
    using Entry = typename Monoid::Entry;
    using Agg = typename Monoid::Agg;
    using Visit = FunctionRef<bool(const Time&, const Entry&)>;

    bool insert(PyObject* time, PyObject* value) final;
    bool evict(PyObject* time) final;
    size_t evict_until(PyObject* time, bool inclusive) final;
    Ref query(const Bounds& bounds) final;
    bool contains(PyObject* time) final;
    Ref oldest() final;
    Ref newest() final;
    uint64_t combines() final;
    Out out() final;
    Ref result_kinds() final;
    bool wide() final;
    bool is_like(Engine& other) final;
    bool slide_to_end(Slide& slide, Ref& result) final;

    Ref scan(const Bounds& bounds, bool reverse, size_t limit, Shown shown) final;
    Contents freeze() final;
    bool load(const Contents& contents) final;
    bool packs() final;
    bool pack(Packed& packed) final;
    void unpack(const PackedView& packed) final;
    void visit(void (*visitor)(PyObject*, void*), void* argument) override;

   protected:
    explicit EngineFor(const TimeFormat& format) : format_(format) {}
    EngineFor(const EngineFor&) = default;

    // --- what the structure does ------------------------------------------------------------------

    virtual bool any_order() const = 0;
    virtual bool in_bulk() const = 0;  // does it take a batch in time order?
    virtual Monoid& monoid() = 0;
    virtual Time first() = 0;
    virtual Time last() = 0;
    virtual bool holds(const Time& time) = 0;
    virtual bool put(Time time, Entry entry) = 0;
    virtual bool remove(const Time& time) = 0;
    virtual void remove_oldest() = 0;
    virtual size_t remove_until(const Time& edge, bool inclusive) = 0;
    virtual Agg whole() = 0;
    virtual bool part(const Range<Time>& range, Agg& agg) = 0;  // false: nothing is in range
    virtual void each(const Range<Time>& range, bool reverse, Visit visit) = 0;
    virtual void put_all(const PackedRows<Time, Monoid>& rows) = 0;
    // Runs changes that happen together or not at all.
    virtual bool change(FunctionRef<bool()> work) = 0;

    // --- what its loops need ----------------------------------------------------------------------

    // Finds what would fail before the first row of a batch is inserted, and its order.
    void prepare(Batch& batch);
    void require_rows(const Column& times, const Column& values, size_t row);

    // What may depend on the time.
    template <class Input>
    Entry lifted(Monoid& monoid, const Time& time, Input&& input) const {
        if constexpr (Monoid::takes_time)
            return monoid.lift(std::forward<Input>(input), Moment<Time>{format_, time});
        else
            return monoid.lift(std::forward<Input>(input));
    }
    Entry lifted(Monoid& monoid, const Time& time, const Column& values, size_t row) const {
        if constexpr (Monoid::is_record) {
            Entry entry = monoid.input_at(values, row);
            if (monoid.timed()) monoid.date(entry, Moment<Time>{format_, time});
            return entry;
        } else {
            return lifted(monoid, time, monoid.input_at(values, row));
        }
    }

    // A row of a timed slide's results, for the window from `start` (or its oldest time) to its newest time.
    void store_timed(Output& out, size_t row, const Slide& slide, const Agg& agg);

    TimeFormat format_;

   private:
    void find_order(Batch& batch);
    Range<Time> range_of(const Bounds& bounds) const;
    Range<Time> slid(const Slide& slide);
    Ref result(const Agg& agg, const Range<Time>& range);
    Ref empty(const Bounds& bounds);
    std::string_view monoid_name();
};

}  // namespace sash
