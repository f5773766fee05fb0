#include "engine/window.hpp"

#include <optional>

#include "monoids/natives.hpp"

namespace sash {

namespace {

using Maker = std::unique_ptr<Engine> (*)(const Recipe&);

// The registry of all structures.
const std::vector<std::pair<std::string, Maker>>& registry() {
    static const std::vector<std::pair<std::string, Maker>> makers = {
        {"fiba", make_fiba}, {"paper", make_paper},       {"classic", make_classic}, {"two_stacks", make_two_stacks},
        {"daba", make_daba}, {"reactive", make_reactive},
    };
    return makers;
}

}  // namespace

const std::vector<std::string>& structure_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> all;
        for (auto& [name, maker] : registry()) all.push_back(name);
        return all;
    }();
    return names;
}

Window::Window(PyObject* monoid, const std::string& structure, const Options& options)
    : monoid_(Ref::borrow(monoid)),
      native_(attribute(monoid, "native")),
      structure_(structure),
      maker_(nullptr),
      options_(options) {
    for (auto& [name, maker] : registry())
        if (name == structure) maker_ = maker;
    if (!maker_)
        fail(ErrorKind::argument, "structure must be one that the core has, got " + structure + ".", "structure");
}

// --- kinds ---------------------------------------------------------------------------------------

Kinds kinds_from(PyObject* tuple) {
    Kinds found;
    for (TimeKind kind : {TimeKind::integer, TimeKind::real, TimeKind::instant, TimeKind::pair})
        if (PyUnicode_CompareWithASCIIString(PyTuple_GetItem(tuple, 0), name_of(kind)) == 0) found.time = kind;
    PyObject* codec = PyTuple_GetItem(tuple, 1);
    if (codec != Py_None) found.codec = Ref::borrow(codec);
    found.value = PyUnicode_AsUTF8(PyTuple_GetItem(tuple, 2));
    return found;
}

Kinds Window::kinds_of(PyObject* time, PyObject* value) const {
    return kinds_from(
        callbacks::kinds_of(monoid_.get(), python_pair(Ref::borrow(time), Ref::borrow(value)).get()).get());
}

std::unique_ptr<Engine> Window::make(const Kinds& kinds, const char* monoid) const {
    Recipe recipe{{kinds.time, kinds.codec}, "object", {monoid_, kinds.value == "float64", nullptr}, options_};
    if (monoid) {
        recipe.monoid = monoid;
    } else if (kinds.is_record()) {
        recipe.spec.plan = std::make_shared<Plan>(monoid_.get(), kinds.value, recipe.format);
        recipe.monoid = recipe.spec.plan->words() <= InlineRecord::kWords ? SmallRecord::name : WideRecord::name;
    } else if (kinds.time != TimeKind::object) {
        for (Py_ssize_t i = 0; i < PyTuple_Size(native_.get()); ++i) {
            PyObject* pair = PyTuple_GET_ITEM(native_.get(), i);
            if (kinds.value == PyUnicode_AsUTF8(PyTuple_GetItem(pair, 0)))
                recipe.monoid = PyUnicode_AsUTF8(PyTuple_GetItem(pair, 1));
        }
    }
    std::unique_ptr<Engine> engine = maker_(recipe);
    if (!engine)
        fail(ErrorKind::argument, "monoid must be one that the core has, got " + recipe.monoid + ".", "monoid");
    return engine;
}

// The engine of a window without kinds: it answers as an empty one of any kind would.
std::unique_ptr<Engine> Window::undecided() const { return make({TimeKind::object, {}, "object"}); }

// Runs a change on the engine, or on a new one that stays only if the change succeeds: a failed first insert leaves
// the window without kinds.
template <class Do>
void Window::change(const Kinds& kinds, Do&& work) {
    if (engine_) {
        in_order(kinds, work);
        ++version_;
        return;
    }
    engine_ = make(kinds);
    kinds_ = kinds;
    try {
        in_order(kinds, work);
        ++version_;
    } catch (...) {
        if (engine_->size() == 0)
            engine_.reset();
        else
            ++version_;
        throw;
    }
}

// Reports times that are out of order for structures that require order.
template <class Do>
auto Window::in_order(const Kinds& kinds, Do&& work) const -> decltype(work()) {
    auto named = [&](const AnyTime& time) { return shown(python_time({kinds.time, kinds.codec}, time).get()); };
    try {
        return work();
    } catch (const TooEarly& e) {
        fail(ErrorKind::order,
             "time must not be before the newest time " + named(e.newest) + " because " + structure_ +
                 " takes times in order, got " + named(e.time) + "; use structure=\"fiba\" for times in any order.",
             "time");
    } catch (const NotOldest& e) {
        fail(ErrorKind::order,
             "time must be the oldest time " + named(e.oldest) + " because " + structure_ + " evicts in order, got " +
                 named(e.time) + "; use structure=\"fiba\" to evict anywhere.",
             "time");
    }
}

// The columns were converted for kinds that another thread, or an iterator that fed them, may have set since.
void Window::require_kinds(const Kinds& kinds, const Column& times, const Column& values) const {
    bool same = true;
    if (engine_) {
        same = kinds.time == kinds_.time && kinds.value == kinds_.value && bool(kinds.codec) == bool(kinds_.codec);
        if (same && kinds.codec) {
            int equal = PyObject_RichCompareBool(kinds.codec.get(), kinds_.codec.get(), Py_EQ);
            succeed(equal);
            same = equal;
        }
    }
    const void* time_rows = times.words;
    if (kinds.time == TimeKind::real) time_rows = times.reals;
    if (kinds.time == TimeKind::object) time_rows = times.objects;
    const void* value_rows = values.objects;
    if (kinds.is_record()) value_rows = values.inputs;
    if (kinds.value == "int64") value_rows = values.words;
    if (kinds.value == "float64") value_rows = values.reals;
    if (!same || (times.size && (!time_rows || (!value_rows && kinds.value != "any"))) || times.size != values.size)
        fail(ErrorKind::concurrent, "the window's first entry was inserted while this batch was read; try again.");
}

// Measurements need a window that has entries with int times, and rows of numbers.
void Window::require_measurable(const Column& times, const Column& values) const {
    if (!engine_ || kinds_.time != TimeKind::integer)
        fail(ErrorKind::argument, "window must have entries, with int times, to be measured.", "window");
    require_kinds(kinds_, times, values);
    if (!values.words && !values.reals) fail(ErrorKind::argument, "values must be an array of numbers.", "values");
}

void Window::widen(const Contents& contents) {
    std::unique_ptr<Engine> wide = make(kinds_, SumWide::name);
    if (!wide->load(contents)) fail(ErrorKind::overflow, "the sum of an entry does not fit 128 bits.");
    combines_before_ += engine_->combines();
    engine_ = std::move(wide);
}

// --- changes -------------------------------------------------------------------------------------

void Window::insert(PyObject* time, PyObject* value) {
    Held held(*this);
    if (engine_) {
        bool held = in_order(kinds_, [&] { return engine_->insert(time, value); });
        if (!held) {
            widen(engine_->freeze());
            engine_->insert(time, value);
        }
        ++version_;
        return;
    }
    change(kinds_of(time, value), [&] { engine_->insert(time, value); });
}

void Window::insert_many(const Kinds& kinds, const Column& times, const Column& values) {
    Held held(*this);
    require_kinds(kinds, times, values);
    Batch batch;
    batch.times = times;
    batch.values = values;
    change(kinds, [&] {
        while (!engine_->insert_many(batch)) widen(engine_->freeze());
    });
}

void Window::slide(const Kinds& kinds, Slide& slide, Ref* at_end) {
    Held held(*this);
    require_kinds(kinds, slide.times, slide.values);
    change(kinds, [&] {
        for (;;) {
            bool done = at_end ? engine_->slide_to_end(slide, *at_end) : engine_->slide(slide);
            if (done) return;
            widen(engine_->freeze());
        }
    });
}

void Window::time_rounds(Slide& slide, int64_t* rounds_ns, int64_t* queries_ns) {
    Held held(*this);
    require_kinds(kinds_, slide.times, slide.values);
    if (engine_) in_order(kinds_, [&] { engine_->time_rounds(slide, rounds_ns, queries_ns); });
    ++version_;
}

void Window::run_rounds(Rounds& rounds, Window* twin) {
    Held held(*this);
    require_measurable(rounds.times, rounds.values);
    if (!rounds.count || (twin && !rounds.twin_count))
        fail(ErrorKind::argument, "count must be positive, got 0.", "count");
    if (rounds.starts.size && (!rounds.starts.words || rounds.starts.size != rounds.times.size))
        fail(ErrorKind::argument, "starts must have one int per round.", "starts");
    if (twin == this) fail(ErrorKind::argument, "twin must be another window.", "twin");
    std::optional<Held> twin_held;
    if (twin) {
        twin_held.emplace(*twin);
        twin->require_measurable(rounds.times, rounds.values);
        rounds.twin = twin->engine_.get();
        if (!engine_->is_like(*rounds.twin))
            fail(ErrorKind::argument, "twin must have this window's structure, monoid and kinds.", "twin");
        ++twin->version_;
    }
    ++version_;
    in_order(kinds_, [&] { engine_->run_rounds(rounds); });
}

void Window::run_batches(const Batches& batches) {
    Held held(*this);
    require_measurable(batches.times, batches.values);
    size_t wanted = batches.rows ? (batches.times.size + batches.rows - 1) / batches.rows : SIZE_MAX;
    if (!batches.cuts.words || batches.cuts.size != wanted)
        fail(ErrorKind::argument, "cuts must have one int per batch.", "cuts");
    ++version_;
    in_order(kinds_, [&] { engine_->run_batches(batches); });
}

bool Window::evict(PyObject* time) {
    Held held(*this);
    bool gone = engine_ ? in_order(kinds_, [&] { return engine_->evict(time); }) : undecided()->evict(time);
    version_ += gone;
    return gone;
}

size_t Window::evict_until(PyObject* time, bool inclusive) {
    Held held(*this);
    size_t gone = engine_ ? engine_->evict_until(time, inclusive) : undecided()->evict_until(time, inclusive);
    version_ += gone;
    return gone;
}

// --- questions -----------------------------------------------------------------------------------

Ref Window::query(const Bounds& bounds) {
    Held held(*this);
    return engine_ ? engine_->query(bounds) : undecided()->query(bounds);
}

bool Window::contains(PyObject* time) {
    Held held(*this);
    return engine_ ? engine_->contains(time) : undecided()->contains(time);
}
size_t Window::size() {
    Held held(*this);
    return engine_ ? engine_->size() : 0;
}
Ref Window::oldest() {
    Held held(*this);
    return engine_ ? engine_->oldest() : none();
}
Ref Window::newest() {
    Held held(*this);
    return engine_ ? engine_->newest() : none();
}
Ref Window::scan(const Bounds& bounds, bool reverse, size_t limit, Shown shown) {
    Held held(*this);
    if (engine_) return engine_->scan(bounds, reverse, limit, shown);
    return python_pair(python_list(), python_list());
}
Ref Window::nodes(PyObject* around) {
    Held held(*this);
    return engine_ ? engine_->nodes(around) : none();
}
void Window::check() {
    Held held(*this);
    if (engine_) engine_->check();
}
uint64_t Window::combines() { return combines_before_ + (engine_ ? engine_->combines() : 0); }
uint64_t Window::spent() { return engine_ ? engine_->spent() : 0; }

Out Window::out_for(const Kinds& kinds) { return engine_ ? engine_->out() : make(kinds)->out(); }
Ref Window::result_kinds_for(const Kinds& kinds) {
    return engine_ ? engine_->result_kinds() : make(kinds)->result_kinds();
}

// --- whole contents ------------------------------------------------------------------------------

Contents Window::freeze() {
    Held held(*this);
    return engine_ ? engine_->freeze() : Contents{python_list(), python_list()};
}

// Do these contents need the wider entries? Two parts of one time may, before the window itself does.
bool Window::wide(const Contents& contents) const {
    if (engine_ && engine_->wide()) return true;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(contents.states.get()); ++i) {
        int overflow = 0;
        PyObject* state = PyList_GET_ITEM(contents.states.get(), i);
        if (kinds_.value == "int64" && PyLong_Check(state)) PyLong_AsLongLongAndOverflow(state, &overflow);
        if (overflow) return true;
    }
    return false;
}

void Window::load(const Kinds& kinds, const Contents& contents, bool wide) {
    Held held(*this);
    std::unique_ptr<Engine> engine = make(kinds, wide ? SumWide::name : nullptr);
    engine->load(contents);
    ++version_;
    kinds_ = kinds;
    engine_ = std::move(engine);
}

// False where there is nothing native to pack.
bool Window::pack(Packed& packed, bool& wide) {
    Held held(*this);
    if (!engine_ || !engine_->packs()) return false;
    if (!engine_->pack(packed)) {
        widen(engine_->freeze());
        packed = {};
        engine_->pack(packed);
    }
    wide = engine_->wide();
    return true;
}

void Window::unpack(const Kinds& kinds, const PackedView& packed, bool wide) {
    Held held(*this);
    std::unique_ptr<Engine> engine = make(kinds, wide ? SumWide::name : nullptr);
    engine->unpack(packed);
    ++version_;
    kinds_ = kinds;
    engine_ = std::move(engine);
}

void Window::copy_from(Window& other) {
    Held held(*this), other_held(other);
    ++version_;
    kinds_ = other.kinds_;
    engine_ = other.engine_ ? other.engine_->copy() : nullptr;
    combines_before_ = other.combines_before_;
}

// Mid-change a reference may stand in two places or none; what is not shown simply counts as used from outside.
void Window::visit(void (*visitor)(PyObject*, void*), void* argument) const {
    if (monoid_) visitor(monoid_.get(), argument);
    if (native_) visitor(native_.get(), argument);
    if (held_) return;
    if (kinds_.codec) visitor(kinds_.codec.get(), argument);
    if (engine_) engine_->visit(visitor, argument);
}

void Window::clear() {
    if (held_) return;
    std::unique_ptr<Engine> engine = std::move(engine_);  // destructors may look at this window: show it empty
    engine.reset();
}

}  // namespace sash
