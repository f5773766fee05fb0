// One structure, one kind of time and one monoid behind virtual calls, one per Python call; the loops are inside.
//
//   Engine                          the interface that Window uses (here)
//   EngineFor<Time, Monoid>         converts arguments from Python and results to Python (contents.hpp)
//   EngineOf<Structure, ...>        the structure, and the loops that must be fast (engine_of.hpp)
//
// Only the last one is compiled for every structure. Window (engine/window.hpp) determines the kinds and builds engines
// by recipe (makers.hpp).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/packed.hpp"
#include "structures/contract.hpp"

namespace sash {

struct Recipe {
    TimeFormat format;
    std::string monoid;  // a name of NativeMonoids, or "object"
    MonoidSpec spec;
    Options options;
};

// A time range from Python; null is an open end.
struct Bounds {
    PyObject* start = nullptr;
    PyObject* stop = nullptr;
    bool start_inside = true, stop_inside = true;
    bool whole() const { return !start && !stop; }
};

// What a scan returns besides the times.
enum class Shown { results, states, times };

// Times and unlowered states as two lists: how contents travel between engines and into pickles.
struct Contents {
    Ref times, states;
};

// A batch to insert. Its order is computed once, also if the window moves to another engine meanwhile.
struct Batch {
    Column times, values;
    std::vector<uint32_t> order;  // empty: unchanged
    bool ties = false;            // some rows may have equal times
    bool prepared = false;
    size_t done = 0;  // in that order
};

struct Slide {
    Column times, values;
    size_t count = 0;  // 0: by size
    Size size;
    Output out;
    size_t row = 0;  // the current round, or the one that failed
};

class Engine;

// Rounds by count for measurements, whose results stay in the core. They can include a smaller window: the range from
// `starts` on, or a `twin` of the same type that receives the same rows.
struct Rounds {
    Column times, values, starts;  // without starts, no range
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

    // These return false, with everything counted as done inserted, if an entry overflows by a merge.
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
    virtual Ref nodes(PyObject* around) = 0;  // None, or a list of times
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
    virtual bool pack(Packed& packed) = 0;            // false: the parts of a time overflow one entry
    virtual void unpack(const PackedView& packed) = 0;
    virtual std::unique_ptr<Engine> copy() = 0;
    virtual void visit(void (*visitor)(PyObject*, void*), void* argument) = 0;
};

// One for each structure; null where the core has no monoid of this name.
std::unique_ptr<Engine> make_fiba(const Recipe& recipe);
std::unique_ptr<Engine> make_paper(const Recipe& recipe);
std::unique_ptr<Engine> make_classic(const Recipe& recipe);
std::unique_ptr<Engine> make_two_stacks(const Recipe& recipe);
std::unique_ptr<Engine> make_daba(const Recipe& recipe);
std::unique_ptr<Engine> make_reactive(const Recipe& recipe);
std::unique_ptr<Engine> make_fiba_of_one(const Recipe& recipe);
std::unique_ptr<Engine> make_fiba_of_records(const Recipe& recipe);
// For the times and monoids that these have no templates for.
std::unique_ptr<Engine> make_erased_fiba(const Recipe& recipe);
std::unique_ptr<Engine> make_erased_paper(const Recipe& recipe);
std::unique_ptr<Engine> make_erased_classic(const Recipe& recipe);
std::unique_ptr<Engine> make_erased_two_stacks(const Recipe& recipe);
std::unique_ptr<Engine> make_erased_daba(const Recipe& recipe);
std::unique_ptr<Engine> make_erased_reactive(const Recipe& recipe);

}  // namespace sash
