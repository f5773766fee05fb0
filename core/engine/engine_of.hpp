// An engine of one structure, one kind of time and one monoid: the loops that must be fast, and all-or-nothing changes.
#pragma once

#include "engine/contents.hpp"
#include "engine/measure.hpp"
#include "structures/node_dict.hpp"

namespace sash {

template <template <class, class> class Structure, class Time, class Monoid>
class EngineOf final : public EngineFor<Time, Monoid> {
    using Base = EngineFor<Time, Monoid>;
    using S = Structure<Time, Monoid>;
    using Base::format_;
    using typename Base::Agg;
    using typename Base::Entry;
    using typename Base::Visit;

   public:
    explicit EngineOf(const Recipe& recipe) : EngineOf(recipe, Monoid(recipe.spec)) {}
    EngineOf(const Recipe& recipe, Monoid monoid) : Base(recipe.format), s_(std::move(monoid), recipe.options) {}

    size_t size() override { return s_.size(); }
    uint64_t spent() override { return s_.spent(); }
    SASH_COLD Ref nodes(PyObject* around) override {
        if (around == Py_None) return nodes_of(s_, format_, nullptr);
        Ref list = Ref::checked(PySequence_List(around));
        std::vector<Time> times;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i)
            times.push_back(time_of<Time>(format_, PyList_GET_ITEM(list.get(), i), "around"));
        return nodes_of(s_, format_, &times);
    }
    SASH_COLD std::unique_ptr<Engine> copy() override { return std::unique_ptr<Engine>(new EngineOf(*this)); }
    SASH_COLD void check() override {
        if constexpr (Monoid::is_record)
            each({}, false, [&](const Time&, const Entry& entry) { return s_.monoid().see(entry), true; });
        s_.check();
    }
    void visit(void (*visitor)(PyObject*, void*), void* argument) override {
        Base::visit(visitor, argument);
        if constexpr (std::is_same_v<Monoid, Objects>) {
            auto each = [&](const Ref& ref) { visitor(ref.get(), argument); };
            s_.monoid().visit(each);
            s_.visit(each);
        }
    }

    // --- many at once ----------------------------------------------------------------------------

    SASH_RARE bool insert_many(Batch& batch) override {
        this->prepare(batch);
        if constexpr (bulk) return s_.insert_run(Run{*this, batch}, batch.done);
        return change([&] {
            for (; batch.done < batch.times.size; ++batch.done) {
                Time time = time_in(batch.times, batch.done);
                Entry entry = entry_in(batch.values, batch.done, time);
                if (!put(std::move(time), std::move(entry))) return false;
            }
            return true;
        });
    }

    bool slide(Slide& slide) override {
        CollectorPause pause(Monoid::is_record && slide.out.objects);
        for (; slide.row < slide.times.size; ++slide.row) {
            check_signals(slide.row);
            if constexpr (Monoid::may_throw) {
                if (!change([&] { return round(slide); })) return false;
            } else {
                return rounds(slide);
            }
        }
        return true;
    }

    // --- measurements ----------------------------------------------------------------------------

    void time_rounds(Slide& slide, int64_t* rounds_ns, int64_t* queries_ns) override {
        if constexpr (is_measured<Time, Monoid>)
            measure::time_rounds(NativeRows(*this, slide.times, slide.values), s_, slide, rounds_ns, queries_ns);
        else
            measure::fail_unmeasured();
    }
    void run_rounds(const Rounds& rounds) override {
        if constexpr (is_measured<Time, Monoid>) {
            auto* twin = static_cast<EngineOf*>(rounds.twin);
            measure::run_rounds(NativeRows(*this, rounds.times, rounds.values), s_, rounds, twin ? &twin->s_ : nullptr);
        } else {
            measure::fail_unmeasured();
        }
    }
    void run_batches(const Batches& batches) override {
        if constexpr (is_measured<Time, Monoid>) {
            for (size_t done = 0, i = 0; done < batches.times.size; done += batches.rows, ++i) {
                remove_until(time_in(batches.cuts, i), true);
                Batch batch;
                batch.times = batches.times.part(done, batches.rows);
                batch.values = batches.values.part(done, batches.rows);
                insert_many(batch);
                measure::ask(s_);
            }
        } else {
            measure::fail_unmeasured();
        }
    }

   protected:
    bool any_order() const override { return S::any_order; }
    bool in_bulk() const override { return bulk; }
    Monoid& monoid() override { return s_.monoid(); }
    Time first() override { return s_.oldest(); }
    Time last() override { return s_.newest(); }
    bool holds(const Time& time) override { return s_.contains(time); }
    bool remove(const Time& time) override { return s_.evict(time); }
    Agg whole() override { return s_.query(); }
    SASH_COLD void each(const Range<Time>& range, bool reverse, Visit visit) override {
        s_.scan(range, reverse, visit);
    }

    bool part(const Range<Time>& range, Agg& agg) override {
        if constexpr (S::ranges)
            return s_.query(range, agg);
        else
            fail(ErrorKind::unsupported,
                 std::string(S::name) + " does not support range queries; use structure=\"fiba\".");
    }

    bool put(Time time, Entry entry) override {
        if constexpr (!logs) {
            return s_.insert(std::move(time), std::move(entry));
        } else {
            auto [present, value] = s_.find(time);
            Logged logged{present ? *present : time, value ? std::optional<Entry>(*value) : std::nullopt, false};
            bool held = s_.insert(std::move(time), std::move(entry));
            log_.push_back(std::move(logged));
            return held;
        }
    }

    void put_all(const PackedRows<Time, Monoid>& rows) override {
        size_t done = 0;
        if constexpr (bulk)
            s_.insert_run(Run{*this, {}, &rows}, done);
        else
            for (; done < rows.size(); ++done) s_.insert(rows.time(done), rows.entry(done));
    }

    void remove_oldest() override {
        if constexpr (logs)
            s_.each_oldest([&](const Time& time, const Entry& entry) { log_.push_back({time, entry, true}); });
        s_.evict_oldest();
    }

    size_t remove_until(const Time& edge, bool inclusive) override {
        if constexpr (bulk) return s_.evict_until(edge, inclusive);
        size_t before = s_.size();
        while (s_.size() && (inclusive ? !less(edge, s_.oldest()) : less(s_.oldest(), edge))) remove_oldest();
        return before - s_.size();
    }

    // User code may raise halfway through.
    bool change(FunctionRef<bool()> work) override {
        if constexpr (!Monoid::may_throw) return work();
        begin();
        try {
            bool answer = work();
            commit();
            return answer;
        } catch (...) {
            rollback();
            throw;
        }
    }

   private:
    static constexpr size_t kSignalRows = size_t{1} << 14;
    // Where each update is all or nothing by itself, several are undone one by one.
    static constexpr bool logs = Monoid::may_throw && S::updates_run_no_code;
    // Whole batches at once, where nothing can fail half way through one.
    static constexpr bool bulk = S::updates_run_no_code && !Monoid::may_throw;

    SASH_COLD EngineOf(const EngineOf&) = default;

    static void check_signals(size_t row) {
        if (row % kSignalRows == 0 && PyErr_CheckSignals() < 0) throw PythonError{};
    }

    Time time_in(const Column& times, size_t row) const { return time_at<Time>(format_, times, row); }
    Entry entry_in(const Column& values, size_t row, const Time& time) {
        return this->lifted(s_.monoid(), time, values, row);
    }
    // Rows, with what reading them needs: a loop that also writes would read it again for each row.
    class NativeRows {
       public:
        NativeRows(EngineOf& engine, const Column& times, const Column& values)
            : engine_(engine), words_(times.words), reals_(times.reals), values_(values) {}
        int64_t time(size_t row) const { return words_ ? words_[row] : word_of(reals_[row] + 0.0); }
        Entry entry(size_t row, const Time& time) const {
            return engine_.lifted(engine_.s_.monoid(), time, values_, row);
        }

        const Column& values() const { return values_; }

       private:
        EngineOf& engine_;
        const int64_t* words_;
        const double* reals_;
        const Column values_;
    };

    // --- slide -----------------------------------------------------------------------------------

    static constexpr bool runs = S::runs && !Monoid::takes_time && !Monoid::in_place;
    static constexpr bool runs_in_columns = [] {
        if constexpr (Monoid::is_record && S::updates_run_no_code) return S::runs_in_columns;
        return false;
    }();
    // The rest of a slide. A round whose result fails (a sum beyond int64) stays done; one whose value does not fit the
    // entry of its time is done again by the engine that the window then moves to.
    bool rounds(Slide& slide) {
        const Column times = slide.times, values = slide.values;
        const size_t count = slide.count;
        Output out = slide.out;
        size_t& row = slide.row;
        const NativeRows rows(*this, times, values);
        for (; row < times.size; ++row) {
            check_signals(row);
            if ((runs || runs_in_columns) && run(rows, slide, out)) {
                if (row == times.size) break;
                check_signals(row);
            }
            Time time = time_in(times, row);
            Entry entry = entry_in(values, row, time);
            if (count) make_room(time, count);
            if (!s_.insert(std::move(time), std::move(entry))) return false;
            if (!count) follow(slide);
            store(out, row, slide);
        }
        return true;
    }

    // As many rounds by count as the structure runs in one go.
    bool run(const NativeRows& rows, Slide& slide, const Output& given) {
        if constexpr (runs) {
            if (s_.size() != slide.count) return false;
            size_t before = slide.row, stop = std::min(slide.times.size, (before / kSignalRows + 1) * kSignalRows);
            auto store = [this, out = Output(given)](size_t row, const Agg& agg) mutable {
                s_.monoid().store(out, row, agg);
            };
            s_.run(rows, slide.row, stop, store);
            return slide.row > before;
        } else if constexpr (runs_in_columns) {
            if (s_.size() != slide.count || !given.records || !s_.monoid().runs(*given.records)) return false;
            size_t before = slide.row, stop = std::min(slide.times.size, (before / kSignalRows + 1) * kSignalRows);
            s_.run(rows, slide.row, stop, *given.records);
            return slide.row > before;
        }
        return false;
    }

    // The same round by round, where each is undone if it fails.
    bool round(Slide& slide) {
        Time time = time_in(slide.times, slide.row);
        Entry entry = entry_in(slide.values, slide.row, time);
        if (slide.count) make_room(time, slide.count);
        if (!put(std::move(time), std::move(entry))) return false;
        if (!slide.count) follow(slide);
        store(slide.out, slide.row, slide);
        return true;
    }

    void make_room(const Time& time, size_t count) {
        if constexpr (!S::any_order)
            if (s_.size() > 1 && count > 1) s_.require_order(time);  // before the evict, which stays done
        while (s_.size() >= count) remove_oldest();
    }

    // The window of a size that ends at the newest time.
    void follow(const Slide& slide) {
        Time edge;
        if (!far_edge(format_, s_.newest(), slide.size, edge)) return;
        while (s_.size() && !less(edge, s_.oldest())) remove_oldest();
    }

    void store(Output& out, size_t row, const Slide& slide) {
        if constexpr (Monoid::takes_time)
            if (s_.monoid().timed()) return this->store_timed(out, row, slide, s_.query());
        if constexpr (Monoid::in_place && S::updates_run_no_code) {
            Agg* slot = s_.monoid().slot(out, row);
            s_.query_into(slot ? *slot : scratch_);
            if (!slot) s_.monoid().store(out, row, scratch_);
        } else {
            s_.monoid().store(out, row, s_.query());
        }
    }

    // --- undoing ---------------------------------------------------------------------------------

    struct Logged {
        Time time;
        std::optional<Entry> before;  // none: the time was not there
        bool evicted;                 // as the oldest; otherwise inserted
    };

    void begin() {
        if constexpr (!logs && Monoid::may_throw) s_.begin();
    }
    void commit() {
        if constexpr (logs)
            log_.clear();
        else if constexpr (Monoid::may_throw)
            s_.commit();
    }
    void rollback() {
        if constexpr (logs)
            undo_logged();
        else if constexpr (Monoid::may_throw)
            s_.rollback();
    }
    void undo_logged() {
        Aside raised;
        for (; !log_.empty(); log_.pop_back()) {
            Logged& last = log_.back();
            if (last.evicted)
                s_.push_front(last.time, std::move(*last.before));
            else if (last.before)
                s_.replace_present(last.time, std::move(*last.before));
            else
                s_.evict_present(last.time);
        }
    }

    // --- batches ---------------------------------------------------------------------------------

    // What a structure sees of a batch, or of packed contents: rows in time order. One type for all, because its bulk
    // insert is compiled for each type of rows.
    struct Run {
        EngineOf& engine;
        const Batch& batch;
        const PackedRows<Time, Monoid>* packed = nullptr;  // instead of the batch
        const uint32_t* order = batch.order.empty() ? nullptr : batch.order.data();

        size_t size() const { return packed ? packed->size() : batch.times.size; }
        bool has_ties() const { return batch.ties; }
        Time time(size_t i) const { return packed ? packed->time(i) : time_in(order ? order[i] : i); }
        Entry entry(size_t i) const { return packed ? packed->entry(i) : entry_in(order ? order[i] : i); }
        SASH_RARE void copy(size_t from, uint32_t count, Time* times, Entry* entries) const {
            if (packed) return packed->copy(from, count, times, entries);
            if (order)
                copy([&](uint32_t i) { return order[from + i]; }, count, times, entries);
            else
                copy([&](uint32_t i) { return from + i; }, count, times, entries);
        }

       private:
        Time time_in(size_t row) const { return engine.time_in(batch.times, row); }
        Entry entry_in(size_t row) const { return engine.entry_in(batch.values, row, time_in(row)); }
        template <class Row>
        void copy(Row&& row, uint32_t count, Time* times, Entry* entries) const {
            for (uint32_t i = 0; i < count; ++i) times[i] = time_in(row(i));
            for (uint32_t i = 0; i < count; ++i) entries[i] = entry_in(row(i));
        }
    };

    S s_;
    Agg scratch_{};  // a wide record's answer, whose memory is used again
    std::vector<Logged> log_;
};

}  // namespace sash
