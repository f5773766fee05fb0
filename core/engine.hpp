// One structure, one kind of time and one monoid behind virtual calls at Python's pace; the loops are inside.
//
// The engine decodes what comes from Python, wraps every change so that it happens or does not, and encodes what goes
// back. It decides nothing about kinds: Window (window.hpp) does that and builds engines by recipe.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "contract.hpp"
#include "erased.hpp"
#include "natives.hpp"
#include "nodes.hpp"
#include "packed.hpp"

namespace sash {

struct Recipe {
    TimeFormat format;
    std::string monoid;  // a name of NativeMonoids, or "object"
    MonoidSpec spec;
    Options options;
};

// A stretch as Python gives it; null is an open end.
struct Bounds {
    PyObject* start = nullptr;
    PyObject* stop = nullptr;
    bool start_inside = true, stop_inside = true;
    bool whole() const { return !start && !stop; }
};

// What a scan gives beside the times.
enum class Shown { results, states, times };

// Times and unlowered states as two lists: how contents travel between engines and into pickles.
struct Contents {
    Ref times, states;
};

// A batch on its way in. Its order is found once and kept while the window moves to another engine.
struct Batch {
    Column times, values;
    std::vector<uint32_t> order;  // empty: as it is
    bool ties = false;            // some rows may have equal times
    bool prepared = false;
    size_t done = 0;  // in that order
};

struct Slide {
    Column times, values;
    size_t count = 0;  // 0: by size
    Size size;
    Output out;
    size_t row = 0;           // the round at work, or the one that failed
    Contents contents;        // set when a failed round could only be undone by building anew
    std::vector<bool> fresh;  // slide_to_end: which rows so far made an entry of their own
};

class Engine;

// Rounds by count for measurements, whose answers stay in the core. A smaller window beside this one is kept too, as the
// stretch from `starts` on, or as a `twin` of the same type that takes the same rows.
struct Rounds {
    Column times, values, starts;  // no starts: no stretch
    size_t count = 0, twin_count = 0;
    Engine* twin = nullptr;
};

// The same in batches of `rows`: evict all up to the batch's own time in `cuts`, insert, query.
struct Batches {
    Column times, values, cuts;
    size_t rows = 1;
};

class Engine {
   public:
    virtual ~Engine() = default;

    // These give false, with all that is counted as done in, where an entry cannot hold what was to be merged into it.
    virtual bool insert(PyObject* time, PyObject* value) = 0;
    virtual bool insert_many(Batch& batch) = 0;
    virtual bool slide(Slide& slide) = 0;
    virtual bool slide_to_end(Slide& slide, Ref& result) = 0;
    // The same rounds by count, each by the clock: nanoseconds of the round and of its query. For measurements only.
    virtual void time_rounds(Slide& slide, int64_t* rounds_ns, int64_t* queries_ns) = 0;
    virtual void run_rounds(const Rounds& rounds) = 0;
    virtual void run_batches(const Batches& batches) = 0;

    virtual bool evict(PyObject* time) = 0;
    virtual size_t evict_until(PyObject* time, bool inclusive) = 0;
    virtual Ref query(const Bounds& bounds) = 0;
    virtual bool contains(PyObject* time) = 0;
    virtual size_t size() = 0;
    virtual Ref oldest() = 0;
    virtual Ref newest() = 0;
    virtual Ref scan(const Bounds& bounds, bool reverse, size_t limit, Shown shown) = 0;
    virtual Ref nodes() = 0;
    virtual void check() = 0;
    virtual uint64_t combines() = 0;
    virtual uint64_t spent() = 0;
    virtual Out out() = 0;
    virtual Ref result_kinds() = 0;           // of a record's parts
    virtual bool wide() = 0;                  // has it moved to wider entries?
    virtual bool is_like(Engine& other) = 0;  // is it of the same structure, time and monoid?

    virtual Contents freeze() = 0;
    virtual bool load(const Contents& contents) = 0;  // false: an entry is too wide for this engine
    virtual bool packs() = 0;                         // are its contents native?
    virtual bool pack(Packed& packed) = 0;            // false: an entry cannot hold all parts of its time
    virtual void unpack(const PackedView& packed) = 0;
    virtual std::unique_ptr<Engine> copy() = 0;
    virtual void visit(void (*visitor)(PyObject*, void*), void* argument) = 0;
};

template <template <class, class> class Structure, class Time, class Monoid>
class EngineOf final : public Engine {
    using S = Structure<Time, Monoid>;
    using Entry = typename Monoid::Entry;
    using Agg = typename Monoid::Agg;

   public:
    explicit EngineOf(const Recipe& recipe) : format_(recipe.format), s_(Monoid(recipe.spec), recipe.options) {}
    EngineOf(const Recipe& recipe, Monoid monoid) : format_(recipe.format), s_(std::move(monoid), recipe.options) {}

    bool insert(PyObject* time, PyObject* value) override {
        Time t = time_of<Time>(format_, time);
        Entry entry = lifted(t, monoid().input(value));
        return ordered([&] { return change([&] { return s_.insert(std::move(t), std::move(entry)); }); });
    }

    bool insert_many(Batch& batch) override {
        return ordered([&] {
            if (!batch.prepared) prepare(batch);
            if constexpr (bulk) return s_.insert_run(Run{*this, batch}, batch.done);
            return change([&] {
                for (; batch.done < batch.times.size; ++batch.done)
                    if (!insert_row(batch.times, batch.values, batch.done)) return false;
                return true;
            });
        });
    }

    bool evict(PyObject* time) override {
        Time t = time_of<Time>(format_, time);
        return ordered([&] { return change([&] { return s_.evict(t); }); });
    }

    size_t evict_until(PyObject* time, bool inclusive) override {
        Time t = time_of<Time>(format_, time);
        if constexpr (bulk) return s_.evict_until(t, inclusive);
        return change([&] { return drop_until(t, inclusive, nullptr); });
    }

    Ref query(const Bounds& bounds) override {
        if (bounds.whole()) return s_.size() ? result(s_.query(), {}) : empty(bounds);
        if constexpr (S::ranges) {
            Agg agg;
            Range<Time> range = range_of(bounds);
            return s_.query(range, agg) ? result(agg, range) : empty(bounds);
        } else {
            fail(ErrorKind::unsupported, std::string("query: ") + S::name +
                                             " answers for the whole window only; use structure=\"fiba\" "
                                             "for a stretch of it.");
        }
    }

    bool contains(PyObject* time) override { return s_.contains(time_of<Time>(format_, time)); }
    size_t size() override { return s_.size(); }
    Ref oldest() override { return s_.size() ? python_time(format_, s_.oldest()) : none(); }
    Ref newest() override { return s_.size() ? python_time(format_, s_.newest()) : none(); }
    void check() override {
        if constexpr (Monoid::is_record)
            s_.scan({}, false, [&](const Time&, const Entry& entry) { return monoid().see(entry), true; });
        s_.check();
    }
    uint64_t combines() override { return monoid().combines; }
    uint64_t spent() override { return s_.spent(); }
    Out out() override {
        if constexpr (Monoid::is_record)
            return monoid().shown_as();
        else
            return Monoid::out;
    }
    Ref result_kinds() override {
        if constexpr (Monoid::is_record) return monoid().result_kinds();
        return none();
    }
    bool wide() override { return monoid_name() == SumWide::name; }
    bool is_like(Engine& other) override {
        return typeid(other) == typeid(*this) && static_cast<EngineOf&>(other).monoid_name() == monoid_name();
    }

    Ref nodes() override { return nodes_of(s_, format_); }

    // --- slide -----------------------------------------------------------------------------------

    bool slide(Slide& slide) override {
        for (; slide.row < slide.times.size; ++slide.row) {
            check_signals(slide.row);
            if constexpr (!Monoid::may_throw)
                if (slide.count && s_.size() <= slide.count) return ordered([&] { return slide_by_count(slide); });
            bool held = ordered([&] { return change([&] { return round(slide); }); });
            if (!held) return false;
        }
        return true;
    }

    void time_rounds(Slide& slide, int64_t* rounds_ns, int64_t* queries_ns) override {
        if constexpr (!measured) {
            fail_unmeasured();
        } else {
            using Clock = std::chrono::steady_clock;
            auto since = [](Clock::time_point a, Clock::time_point b) {
                return std::chrono::duration_cast<std::chrono::nanoseconds>(b - a).count();
            };
            ordered([&] {
                for (size_t row = 0; row < slide.times.size; ++row) {
                    auto start = Clock::now();
                    while (s_.size() >= slide.count) s_.evict_oldest();
                    Time time = time_at<Time>(format_, slide.times, row);
                    Entry entry = lifted(time, slide.values, row);
                    s_.insert(std::move(time), std::move(entry));
                    auto asked = Clock::now();
                    ask();
                    auto end = Clock::now();
                    rounds_ns[row] = since(start, end);
                    queries_ns[row] = since(asked, end);
                }
                return true;
            });
        }
    }

    void run_rounds(const Rounds& rounds) override {
        if constexpr (!measured) {
            fail_unmeasured();
        } else {
            auto* twin = static_cast<EngineOf*>(rounds.twin);
            ordered([&] {
                for (size_t row = 0; row < rounds.times.size; ++row) {
                    take(rounds, row, rounds.count);
                    ask();
                    if (rounds.starts.size) ask_from(time_at<Time>(format_, rounds.starts, row));
                    if (!twin) continue;
                    twin->take(rounds, row, rounds.twin_count);
                    twin->ask();
                }
                return true;
            });
        }
    }

    void run_batches(const Batches& batches) override {
        if constexpr (!measured) {
            fail_unmeasured();
        } else {
            for (size_t done = 0, i = 0; done < batches.times.size; done += batches.rows, ++i) {
                Time cut = time_at<Time>(format_, batches.cuts, i);
                if constexpr (bulk)
                    s_.evict_until(cut, true);
                else
                    drop_until(cut, true, nullptr);
                Batch batch;
                batch.times = batches.times.part(done, batches.rows);
                batch.values = batches.values.part(done, batches.rows);
                insert_many(batch);
                ask();
            }
        }
    }

    // Insert all, drop, one query: the whole call is one round.
    bool slide_to_end(Slide& slide, Ref& result) override {
        return ordered([&] {
            require_rows(slide.times, slide.values, slide.row);
            return change([&] {
                decltype(evicted_)().swap(evicted_);
                for (; slide.row < slide.times.size; ++slide.row) {
                    size_t before = s_.size();
                    if (!insert_row(slide.times, slide.values, slide.row)) return false;
                    if constexpr (undoes_by_content) slide.fresh.push_back(s_.size() > before);
                }
                drop(slide);
                undoing(
                    slide, {0, slide.times.size, false}, [&](size_t i) { return slide.fresh[i]; },
                    [&] { result = s_.size() ? this->result(s_.query(), slid(slide)) : monoid().empty(); });
                decltype(evicted_)().swap(evicted_);
                return true;
            });
        });
    }

    // --- contents --------------------------------------------------------------------------------

    // Two lists, times and what goes with them; entries of one time that stand in several parts are combined.
    Ref scan(const Bounds& bounds, bool reverse, size_t limit, Shown shown) override {
        Ref times = python_list(), values = python_list();
        Fold<Monoid> fold(monoid());
        std::optional<Time> at;
        uint64_t combines = monoid().combines;
        auto emit = [&] {
            append(times, python_time(format_, *at));
            if (shown == Shown::times) return;
            append(values, shown == Shown::states ? monoid().state(fold.get()) : result(fold.get(), {at, at}));
        };
        s_.scan(range_of(bounds), reverse, [&](const Time& time, const Entry& entry) {
            bool same = at && !(reverse ? less(time, *at) : less(*at, time));
            if (!same) {
                if (at) emit();
                at.reset();
                if (static_cast<size_t>(PyList_GET_SIZE(times.get())) == limit) return false;
                at = time;
                fold.clear();
            }
            reverse ? fold.prepend(monoid().of(entry)) : fold.append_entry(entry);
            return true;
        });
        if (at) emit();
        monoid().combines = combines;
        return python_pair(times, values);
    }

    Contents freeze() override {
        Ref both = scan(Bounds{}, false, SIZE_MAX, Shown::states);
        return {Ref::borrow(PyTuple_GET_ITEM(both.get(), 0)), Ref::borrow(PyTuple_GET_ITEM(both.get(), 1))};
    }

    bool load(const Contents& contents) override {
        Py_ssize_t size = PyList_Size(contents.times.get());
        if (PyList_Size(contents.states.get()) != size)
            fail(ErrorKind::argument, "states: there are not as many as times.");
        return ordered([&] {
            return change([&] {
                for (Py_ssize_t i = 0; i < size; ++i) {
                    Time time = time_of<Time>(format_, PyList_GET_ITEM(contents.times.get(), i));
                    if (!s_.insert(std::move(time), monoid().thaw(PyList_GET_ITEM(contents.states.get(), i))))
                        return false;
                }
                return true;
            });
        });
    }

    bool packs() override { return !Monoid::may_throw; }

    bool pack(Packed& packed) override {
        if constexpr (Monoid::may_throw) {
            return false;
        } else {
            packed.rows = s_.size();
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
            s_.scan(Range<Time>{}, false, [&](const Time& time, const Entry& entry) {
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

    void unpack(const PackedView& packed) override {
        if constexpr (!Monoid::may_throw) {
            PackedRows<Time, Monoid> rows(packed, format_, monoid());
            if (!rows.sound())
                fail(ErrorKind::corrupt,
                     "data: its times or entries are not those of a window; give what to_bytes gave.");
            size_t done = 0;
            if constexpr (bulk) {
                s_.insert_run(Run{*this, {}, &rows}, done);
            } else {
                for (; done < rows.size(); ++done) s_.insert(rows.time(done), rows.entry(done));
            }
        }
    }

    std::unique_ptr<Engine> copy() override { return std::unique_ptr<Engine>(new EngineOf(*this)); }

    void visit(void (*visitor)(PyObject*, void*), void* argument) override {
        auto each = [&](const Ref& ref) { visitor(ref.get(), argument); };
        if (format_.codec) each(format_.codec);
        if constexpr (std::is_same_v<Monoid, Objects>) {
            monoid().visit(each);
            s_.visit(each);
        }
    }

   private:
    static constexpr size_t kSignalRows = size_t{1} << 14;
    // A native sum may have no int64 result, after the window has already changed. Rather than pay for an undo log in
    // every round, such a round remembers what it evicted, and is undone by building the window anew.
    static constexpr bool undoes_by_content = Monoid::result_may_fail && !Monoid::may_throw;
    // Where each update is all or nothing by itself, several are undone one by one.
    static constexpr bool logs = Monoid::may_throw && S::updates_run_no_code;
    // Whole batches at once, where nothing can fail half way through one.
    static constexpr bool bulk = S::updates_run_no_code && !Monoid::may_throw;
    struct Rows {
        size_t from, count;
        bool after_evicting;  // what was evicted went before they came
    };
    struct Logged {
        Time time;
        std::optional<Entry> before;  // none: the time was not there
        bool evicted;                 // as the oldest; otherwise inserted
    };

    EngineOf(const EngineOf&) = default;

    Monoid& monoid() { return s_.monoid(); }
    std::string_view monoid_name() {
        if constexpr (std::is_same_v<Monoid, AnyMonoid>)
            return monoid().name();
        else
            return Monoid::name;
    }
    bool undoes() { return undoes_by_content && monoid().may_fail(); }

    // --- measurements --------------------------------------------------------------------------------------

    // They undo nothing, so that nothing may fail half way; and no other template pays for loops that nobody runs.
    static constexpr bool measured =
        std::is_same_v<Time, int64_t> && is_one_of<Monoid>(static_cast<MeasuredMonoids*>(nullptr));
    [[noreturn]] static void fail_unmeasured() {
        fail(ErrorKind::unsupported,
             "monoid: rounds are measured with a native sum of ints, geomean or bloom, and int times.");
    }

    void take(const Rounds& rounds, size_t row, size_t count) {
        while (s_.size() >= count) s_.evict_oldest();
        Time time = time_at<Time>(format_, rounds.times, row);
        Entry entry = lifted(time, rounds.values, row);
        s_.insert(std::move(time), std::move(entry));
    }

    // An answer that no one reads must be computed all the same.
    static void use(const Agg& agg) { asm volatile("" : : "r"(&agg) : "memory"); }
    void ask() {
        Agg agg = s_.query();
        use(agg);
    }
    void ask_from(const Time& start) {
        if constexpr (S::ranges) {
            Agg agg;
            Range<Time> range;
            range.start = start;
            s_.query(range, agg);
            use(agg);
        } else {
            fail(ErrorKind::unsupported, std::string("starts: ") + S::name + " answers for the whole window only.");
        }
    }

    // --- what may depend on the time ---------------------------------------------------------------------

    template <class Input>
    Entry lifted(const Time& time, Input&& input) {
        if constexpr (Monoid::takes_time)
            return monoid().lift(std::forward<Input>(input), Moment<Time>{format_, time});
        else
            return monoid().lift(std::forward<Input>(input));
    }
    Entry lifted(const Time& time, const Column& values, size_t row) {
        if constexpr (Monoid::is_record) {
            Entry entry = monoid().input_at(values, row);
            if (monoid().timed()) monoid().date(entry, Moment<Time>{format_, time});
            return entry;
        } else {
            return lifted(time, monoid().input_at(values, row));
        }
    }

    // The result of a stretch; its open ends are the oldest and the newest time.
    Ref result(const Agg& agg, const Range<Time>& range) {
        if constexpr (Monoid::takes_time) {
            if (monoid().timed()) {
                Time start = range.start ? *range.start : s_.oldest(), stop = range.stop ? *range.stop : s_.newest();
                Moment<Time> from{format_, start}, to{format_, stop};
                if constexpr (Monoid::is_record)
                    return monoid().result(agg, {from.word(), to.word()});
                else
                    return monoid().result(agg, from.python(), to.python());
            }
        }
        return monoid().result(agg);
    }

    // Of a stretch that holds nothing; an end that is open is none.
    Ref empty(const Bounds& bounds) {
        if constexpr (Monoid::takes_time) {
            Ref start = bounds.start ? Ref::borrow(bounds.start) : none();
            return monoid().empty(start, bounds.stop ? Ref::borrow(bounds.stop) : none());
        } else {
            return monoid().empty();
        }
    }

    // The stretch that a slide has just come to.
    Range<Time> slid(const Slide& slide) {
        Range<Time> range;
        Time edge;
        if constexpr (Monoid::takes_time)
            if (monoid().timed() && !slide.count && far_edge(format_, s_.newest(), slide.size, edge))
                range.start = edge;
        return range;
    }

    void store(Output& out, size_t row, const Slide& slide) {
        if constexpr (Monoid::takes_time) {
            if (monoid().timed()) {
                Range<Time> range = slid(slide);
                Time start = range.start ? *range.start : s_.oldest(), stop = s_.newest();
                Moment<Time> from{format_, start}, to{format_, stop};
                if constexpr (Monoid::is_record)
                    return monoid().store(out, row, s_.query(), {from.word(), to.word()});
                else
                    return monoid().store(out, row, s_.query(), from.python(), to.python());
            }
        }
        if constexpr (Monoid::is_record && S::updates_run_no_code) {
            Agg* slot = monoid().slot(out, row);
            s_.query_into(slot ? *slot : scratch_);
            if (!slot) monoid().store(out, row, scratch_);
        } else {
            monoid().store(out, row, s_.query());
        }
    }

    // Runs changes that happen together or not at all, also where a user's code raises half way through.
    template <class Do>
    auto change(Do&& work) -> decltype(work()) {
        if constexpr (logs) {
            try {
                auto answer = work();
                log_.clear();
                return answer;
            } catch (...) {
                undo_logged();
                throw;
            }
        } else if constexpr (Monoid::may_throw) {
            s_.begin();
            try {
                auto answer = work();
                s_.commit();
                return answer;
            } catch (...) {
                s_.rollback();
                throw;
            }
        } else {
            return work();
        }
    }

    template <class Do>
    auto ordered(Do&& work) -> decltype(work()) {
        try {
            return work();
        } catch (const TooEarly<Time>& e) {
            fail(ErrorKind::order, "time: " + named(e.time) + " is before the newest time " + named(e.newest) +
                                       ", and " + S::name +
                                       " takes times in order; use structure=\"fiba\" for "
                                       "times in any order.");
        } catch (const NotOldest<Time>& e) {
            fail(ErrorKind::order, "time: " + named(e.time) + " is not the oldest time " + named(e.oldest) + ", and " +
                                       S::name +
                                       " evicts in order; use structure=\"fiba\" to evict "
                                       "anywhere.");
        }
    }
    std::string named(const Time& time) { return shown(python_time(format_, time).get()); }

    Range<Time> range_of(const Bounds& bounds) {
        Range<Time> range;
        if (bounds.start) range.start = time_of<Time>(format_, bounds.start, "start");
        if (bounds.stop) range.stop = time_of<Time>(format_, bounds.stop, "stop");
        range.start_inside = bounds.start_inside;
        range.stop_inside = bounds.stop_inside;
        return range;
    }

    // Rows that would fail half way through are found before the first is inserted.
    void require_rows(const Column& times, const Column& values, size_t row) {
        if constexpr (Monoid::validates)
            for (size_t i = row; i < values.size; ++i) monoid().input_at(values, i);
        if (row >= times.size) return;
        Time before = time_at<Time>(format_, times, row);
        s_.require_order(before);
        if constexpr (!S::any_order)
            for (size_t i = row + 1; i < times.size; ++i) {
                Time time = time_at<Time>(format_, times, i);
                if (less(time, before)) throw TooEarly<Time>{time, before};
                before = std::move(time);
            }
    }

    // --- batches -----------------------------------------------------------------------------------------

    void prepare(Batch& batch) {
        require_rows(batch.times, batch.values, 0);
        if constexpr (bulk) find_order(batch);
        batch.prepared = true;
    }

    // A stable order by time: rows of one time stay in order of arrival.
    void find_order(Batch& batch) {
        size_t size = batch.times.size, ascending = 1;
        auto time = [&](size_t row) { return time_at<Time>(format_, batch.times, row); };
        for (; ascending < size && !less(time(ascending), time(ascending - 1)); ++ascending)
            if (!less(time(ascending - 1), time(ascending))) batch.ties = true;
        if (ascending >= size) return;
        if (size > UINT32_MAX)
            fail(ErrorKind::argument, "times: a batch of 2**32 rows is too long; cut it into shorter ones.");
        std::vector<std::pair<Time, uint32_t>> rows(size);
        for (size_t row = 0; row < size; ++row) rows[row] = {time(row), static_cast<uint32_t>(row)};
        std::sort(rows.begin(), rows.end());
        batch.ties = true;
        batch.order.resize(size);
        for (size_t i = 0; i < size; ++i) batch.order[i] = rows[i].second;
    }

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
        void copy(size_t from, uint32_t count, Time* times, Entry* entries) const {
            if (packed) return packed->copy(from, count, times, entries);
            if (order)
                copy([&](uint32_t i) { return order[from + i]; }, count, times, entries);
            else
                copy([&](uint32_t i) { return from + i; }, count, times, entries);
        }

       private:
        Time time_in(size_t row) const { return time_at<Time>(engine.format_, batch.times, row); }
        Entry entry_in(size_t row) const { return engine.lifted(time_in(row), batch.values, row); }
        template <class Row>
        void copy(Row&& row, uint32_t count, Time* times, Entry* entries) const {
            for (uint32_t i = 0; i < count; ++i) times[i] = time_in(row(i));
            for (uint32_t i = 0; i < count; ++i) entries[i] = entry_in(row(i));
        }
    };

    bool insert_row(const Column& times, const Column& values, size_t row) {
        Time time = time_at<Time>(format_, times, row);
        Entry entry = lifted(time, values, row);
        return put(std::move(time), std::move(entry));
    }

    bool put(Time time, Entry entry) {
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

    void undo_logged() {
        if constexpr (logs) {
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
    }

    void evict_oldest(std::vector<std::pair<Time, Entry>>* evicted) {
        if (evicted) s_.each_oldest([&](const Time& time, const Entry& entry) { evicted->push_back({time, entry}); });
        if constexpr (logs)
            s_.each_oldest([&](const Time& time, const Entry& entry) { log_.push_back({time, entry, true}); });
        s_.evict_oldest();
    }

    size_t drop_until(const Time& edge, bool inclusive, std::vector<std::pair<Time, Entry>>* evicted) {
        size_t before = s_.size();
        while (s_.size() && (inclusive ? !less(edge, s_.oldest()) : less(s_.oldest(), edge))) evict_oldest(evicted);
        return before - s_.size();
    }

    std::vector<std::pair<Time, Entry>>* evicted() { return undoes() ? &evicted_ : nullptr; }

    void drop(Slide& slide) {
        Time edge;
        if (slide.count) {
            while (s_.size() > slide.count) evict_oldest(evicted());
        } else if (s_.size() && far_edge(format_, s_.newest(), slide.size, edge)) {
            drop_until(edge, true, evicted());
        }
    }

    static void check_signals(size_t row) {
        if (row % kSignalRows == 0 && PyErr_CheckSignals() < 0) throw PythonError{};
    }

    // What left the window in one round of slide_by_count: one time, which some structures hold in a few parts.
    struct Gone {
        Time time{};
        std::array<Entry, 4> parts{};
        uint32_t count = 0;
    };

    // The paper's rounds with nothing between them that could be kept out: a round evicts one time at most, so what it must
    // remember for the case that its result does not fit is at hand.
    bool slide_by_count(Slide& slide) {
        const Column times = slide.times, values = slide.values;
        const size_t count = slide.count;
        Output out = slide.out;
        size_t row = slide.row;
        Gone gone;
        bool held = true, fresh = false;
        try {
            for (; row < times.size; ++row) {
                check_signals(row);
                Time time = time_at<Time>(format_, times, row);
                Entry entry = lifted(time, values, row);
                if constexpr (!S::any_order)
                    if (s_.size() > 1 && count > 1) s_.require_order(time);
                if constexpr (undoes_by_content) gone.count = 0;
                if (s_.size() == count) evict_one(gone);
                size_t before = s_.size();
                held = s_.insert(std::move(time), std::move(entry));
                if (!held) break;
                fresh = s_.size() > before;
                store(out, row, slide);
            }
            slide.row = row;
        } catch (...) {
            slide.row = row;
            if (undoes()) {
                remember(gone);
                give_back(slide, {row, 1, true}, [&](size_t) { return fresh; });
            }
            throw;
        }
        if (!held) {
            remember(gone);
            restore_evicted(slide);
        }
        return held;
    }

    void evict_one(Gone& gone) {
        if constexpr (undoes_by_content)
            s_.each_oldest([&](const Time& time, const Entry& entry) {
                gone.time = time;
                gone.parts[gone.count++] = entry;
            });
        s_.evict_oldest();
    }

    void remember(const Gone& gone) {
        if constexpr (undoes_by_content) {
            evicted_.clear();
            for (uint32_t i = 0; i < gone.count; ++i) evicted_.push_back({gone.time, gone.parts[i]});
        }
    }

    bool round(Slide& slide) {
        if constexpr (undoes_by_content)
            if (!evicted_.empty()) evicted_.clear();
        Time time = time_at<Time>(format_, slide.times, slide.row);
        Entry entry = lifted(time, slide.values, slide.row);
        if (slide.count) {
            if (s_.size() > 1 && slide.count > 1) s_.require_order(time);  // before the evict, which it could not undo
            while (s_.size() >= slide.count) evict_oldest(evicted());
        }
        size_t before = s_.size();
        if (!put(std::move(time), std::move(entry))) {
            restore_evicted(slide);
            return false;
        }
        bool fresh = s_.size() > before;
        if (!slide.count) drop(slide);
        undoing(
            slide, {slide.row, 1, slide.count > 0}, [&](size_t) { return fresh; },
            [&] { store(slide.out, slide.row, slide); });
        return true;
    }

    // Runs the part of a round that may find no result; if so, gives back the contents as they were before its rows.
    template <class Fresh, class Do>
    void undoing(Slide& slide, const Rows& rows, Fresh&& fresh, Do&& work) {
        if constexpr (!undoes_by_content) {
            work();
        } else {
            try {
                work();
            } catch (const Error&) {
                if (undoes()) give_back(slide, rows, fresh);
                throw;
            }
        }
    }

    void restore_evicted(Slide& slide) {
        if constexpr (undoes_by_content)
            if (!evicted_.empty()) give_back(slide, {slide.row, 0, true}, [](size_t) { return false; });
    }

    // Undoes backwards what was done. `fresh(i)` says whether a row made an entry, which has to go, or joined one.
    template <class Fresh>
    void give_back(Slide& slide, const Rows& rows, Fresh&& fresh) {
        if constexpr (undoes_by_content) {
            std::map<Time, __int128> held;
            auto add = [&](const Time& time, const Entry& entry) { return held[time] += monoid().total(entry), true; };
            auto add_evicted = [&] {
                for (auto& [time, entry] : evicted_) add(time, entry);
            };
            s_.scan(Range<Time>{}, false, add);
            if (!rows.after_evicting) add_evicted();
            for (size_t i = rows.count; i-- > 0;) {
                Time time = time_at<Time>(format_, slide.times, rows.from + i);
                held[time] -= monoid().total(lifted(time, slide.values, rows.from + i));
                if (fresh(i)) held.erase(time);
            }
            if (rows.after_evicting) add_evicted();
            evicted_.clear();
            slide.contents = {python_list(), python_list()};
            for (auto& [time, total] : held) {
                append(slide.contents.times, python_time(format_, time));
                append(slide.contents.states, python_int(total));
            }
        }
    }

    TimeFormat format_;
    S s_;
    Agg scratch_{};  // a wide record's answer, whose memory is used again
    std::vector<std::pair<Time, Entry>> evicted_;
    std::vector<Logged> log_;
};

// --- factories: each in a translation unit of its own --------------------------------------------

template <template <class, class> class Structure, class Time, class... Monoids>
std::unique_ptr<Engine> make_native(const Recipe& recipe, std::tuple<Monoids...>*) {
    std::unique_ptr<Engine> engine;
    (void)((recipe.monoid == Monoids::name &&
            (engine = std::make_unique<EngineOf<Structure, Time, Monoids>>(recipe), true)) ||
           ...);
    return engine;
}

// For the rivals of `fiba`: templates of their own for what they are measured with, else null.
template <template <class, class> class Structure>
std::unique_ptr<Engine> make_measured(const Recipe& recipe) {
    if (recipe.format.kind == TimeKind::pair || recipe.format.kind == TimeKind::object) return nullptr;
    return make_native<Structure, int64_t>(recipe, static_cast<MeasuredMonoids*>(nullptr));
}

// And one for every other monoid and time, whose translation units (erased_*.cpp) are compiled in half the time.
template <template <class, class> class Structure>
std::unique_ptr<Engine> make_erased(const Recipe& recipe) {
    if (recipe.format.kind == TimeKind::object || recipe.monoid == Objects::name)
        return std::make_unique<EngineOf<Structure, AnyTime, Objects>>(recipe);
    std::unique_ptr<AnyOps> ops = any_ops(recipe.monoid, recipe.spec);
    if (!ops) return nullptr;
    return std::make_unique<EngineOf<Structure, AnyTime, AnyMonoid>>(recipe, AnyMonoid(std::move(ops)));
}

std::unique_ptr<Engine> make_fiba(const Recipe& recipe);
std::unique_ptr<Engine> make_paper(const Recipe& recipe);
std::unique_ptr<Engine> make_classic(const Recipe& recipe);
std::unique_ptr<Engine> make_two_stacks(const Recipe& recipe);
std::unique_ptr<Engine> make_daba(const Recipe& recipe);
std::unique_ptr<Engine> make_reactive(const Recipe& recipe);

std::unique_ptr<Engine> make_fiba_of_pairs(const Recipe& recipe);
std::unique_ptr<Engine> make_fiba_of_objects(const Recipe& recipe);
std::unique_ptr<Engine> make_erased_paper(const Recipe& recipe);
std::unique_ptr<Engine> make_erased_classic(const Recipe& recipe);
std::unique_ptr<Engine> make_erased_two_stacks(const Recipe& recipe);
std::unique_ptr<Engine> make_erased_daba(const Recipe& recipe);
std::unique_ptr<Engine> make_erased_reactive(const Recipe& recipe);

}  // namespace sash
