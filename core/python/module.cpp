// The Python bindings of the core's windows and functions.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "engine/window.hpp"
#include "monoids/plan.hpp"
#include "python/arguments.hpp"
#include "python/callbacks.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace sash;

namespace sash {
void bind_keyed(nb::module_& m);  // python/keyed_module.cpp
void bind_event(nb::module_& m);  // python/event_module.cpp
}  // namespace sash

namespace {

// --- errors --------------------------------------------------------------------------------------

void raise(const Error& error) {
    try {
        Ref kind = callbacks::error_class(error.kind);
        Ref raised = call(kind.get(), python_text(error.message).get());
        if (!error.argument.empty())
            succeed(PyObject_SetAttrString(raised.get(), "argument", python_text(error.argument).get()));
        PyErr_SetObject(kind.get(), raised.get());
    } catch (const PythonError&) {
    }
}

void translate(const std::exception_ptr& thrown, void*) {
    try {
        std::rethrow_exception(thrown);
    } catch (const PythonError&) {
        // the interpreter's error indicator is set already
    } catch (const Error& error) {
        raise(error);
    }
}

// Runs the work and returns the exception that it raised, or None.
template <class Do>
Ref caught(Do&& work) {
    try {
        work();
        return none();
    } catch (const PythonError&) {
    } catch (const Error& error) {
        raise(error);
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace) PyException_SetTraceback(value, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return Ref::steal(value);
}

// --- arguments -----------------------------------------------------------------------------------

Bounds bounds_of(nb::handle start, nb::handle stop, nb::handle closed) {
    Bounds bounds{start.is_none() ? nullptr : start.ptr(), stop.is_none() ? nullptr : stop.ptr()};
    auto is = [&](const char* name) {
        return PyUnicode_Check(closed.ptr()) && PyUnicode_CompareWithASCIIString(closed.ptr(), name) == 0;
    };
    if (is("both")) return bounds;
    bounds.start_inside = is("left");
    bounds.stop_inside = is("right");
    if (!bounds.start_inside && !bounds.stop_inside && !is("neither"))
        fail(ErrorKind::argument,
             "closed must be \"both\", \"left\", \"right\" or \"neither\", got " + shown(closed.ptr()) + ".", "closed");
    return bounds;
}

// --- garbage collection --------------------------------------------------------------------------

struct Visitor {
    visitproc visit;
    void* argument;
    int status = 0;
};

int traverse(PyObject* self, visitproc visit, void* arg) {  // Py_VISIT wants these names
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self)) return 0;
    Visitor visitor{visit, arg};
    nb::inst_ptr<Window>(self)->visit(
        [](PyObject* object, void* state) {
            auto* v = static_cast<Visitor*>(state);
            if (v->status == 0) v->status = v->visit(object, v->argument);
        },
        &visitor);
    return visitor.status;
}

int clear(PyObject* self) {
    if (nb::inst_ready(self)) nb::inst_ptr<Window>(self)->clear();
    return 0;
}

PyType_Slot slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {Py_tp_clear, reinterpret_cast<void*>(clear)}, {0, nullptr}};

// --- methods that are more than one call ---------------------------------------------------------

nb::object kinds_property(const Window& window) {
    const Kinds* kinds = window.kinds();
    if (!kinds) return nb::none();
    nb::object codec = kinds->codec ? nb::borrow(kinds->codec.get()) : nb::object(nb::none());
    return nb::make_tuple(name_of(kinds->time), codec, kinds->value);
}

const char* result_type(Window& window, const nb::tuple& kinds_given) {
    Kinds kinds = kinds_from(kinds_given.ptr());
    bool reals = kinds.value == "float64";
    switch (window.out_for(kinds)) {
        case Out::integer: return "int64";
        case Out::real: return "float64";
        case Out::word: return reals ? "float64" : "int64";
        case Out::record: return "record";
        default: return "object";
    }
}

// None is a size that nothing exceeds.
Size size_from(TimeKind kind, PyObject* size) {
    Size found;
    found.unbounded = size == Py_None;
    found.object = Ref::borrow(size);
    if (found.unbounded || kind == TimeKind::object) return found;
    if (kind == TimeKind::real)
        found.length = PyFloat_AsDouble(size);
    else
        found.ticks = PyLong_AsLongLong(size);
    if (PyErr_Occurred()) throw PythonError{};
    return found;
}

// Results go to (words, one row for each word of a result; whether they are there, one row for each part).
nb::object slide_records(Window& window, const nb::tuple& kinds, Slide& slide, PyObject* out) {
    Bytes words(PyTuple_GetItem(out, 0), true), there(PyTuple_GetItem(out, 1), true);
    RecordOutput records;
    records.words = reinterpret_cast<int64_t*>(words.data());
    records.there = reinterpret_cast<uint8_t*>(there.data());
    records.rows = slide.times.size;
    slide.out.records = &records;
    Ref error = caught([&] { window.slide(kinds_from(kinds.ptr()), slide, nullptr); });
    records.flush();
    return nb::make_tuple(slide.row, python(error));
}

nb::object slide(Window& window, const nb::tuple& kinds, nb::handle times, nb::handle values, nb::handle size,
                 size_t count, nb::handle out) {
    window.require_free();  // an error of this call, not of its first round
    ColumnArgument time_column(times), value_column(values);
    Slide slide;
    slide.times = time_column.get();
    slide.values = value_column.get();
    slide.count = count;
    slide.size = size_from(kinds_from(kinds.ptr()).time, size.ptr());
    Ref result = none();
    if (out.is_none()) {
        Ref error = caught([&] { window.slide(kinds_from(kinds.ptr()), slide, &result); });
        return nb::make_tuple(python(result), python(error));
    }
    if (PyTuple_Check(out.ptr())) return slide_records(window, kinds, slide, out.ptr());
    ColumnArgument output(out, true);
    slide.out = output.output();
    Ref error = caught([&] { window.slide(kinds_from(kinds.ptr()), slide, nullptr); });
    return nb::make_tuple(slide.row, python(error));
}

void run_rounds(Window& window, nb::handle times, nb::handle values, size_t count, nb::handle starts, Window* twin,
                size_t twin_count) {
    ColumnArgument time_column(times), value_column(values);
    std::optional<ColumnArgument> start_column;
    Rounds rounds;
    rounds.times = time_column.get();
    rounds.values = value_column.get();
    if (!starts.is_none()) rounds.starts = start_column.emplace(starts).get();
    rounds.count = count;
    rounds.twin_count = twin_count;
    window.run_rounds(rounds, twin);
}

nb::object contents_of(Window& window) {
    Contents contents = window.freeze();
    return nb::make_tuple(python(contents.times), python(contents.states), window.wide(contents));
}

// The bytes of times and of entries, and their number; None for Python objects, and for a window without kinds.
nb::object packed(Window& window) {
    Packed state;
    bool wide = false;
    if (!window.pack(state, wide)) return nb::none();
    return nb::make_tuple(python(state.times), python(state.entries), state.rows, wide);
}

uint64_t hash_of(nb::handle data, uint64_t seed) {
    Bytes bytes(data);
    return hash64(bytes.view().data(), bytes.view().size(), seed);
}

// Writes the stable hash of each row of a list, or of an array of int64 or float64, into an array.
void hash_rows(nb::handle rows, nb::handle hashes) {
    ColumnArgument input(rows), out(hashes, true);
    const Column& column = input.get();
    if (out.get().size != column.size) fail(ErrorKind::argument, "hashes must be as long as rows.", "hashes");
    int64_t* words = out.output().words;
    for (size_t i = 0; i < column.size; ++i) {
        uint64_t hash = column.words   ? mixed(static_cast<uint64_t>(column.words[i]))
                        : column.reals ? stable_hash(python_float(column.reals[i]).get())
                                       : stable_hash(PyList_GET_ITEM(column.objects, static_cast<Py_ssize_t>(i)));
        words[i] = static_cast<int64_t>(hash);
    }
}

// The parts concatenated, followed by the hash of all of them.
nb::object sealed(const nb::list& parts) {
    size_t size = 0;
    for (nb::handle part : parts) size += Bytes(part).view().size();
    Ref all = python_bytes(size + sizeof(uint64_t));
    char *start = PyBytes_AS_STRING(all.get()), *at = start;
    for (nb::handle part : parts) {
        Bytes bytes(part);
        if (bytes.view().empty()) continue;
        std::memcpy(at, bytes.view().data(), bytes.view().size());
        at += bytes.view().size();
    }
    uint64_t hash = hash64(start, size, 0);
    std::memcpy(at, &hash, sizeof hash);
    return python(all);
}

bool seal_holds(nb::handle data) {
    Bytes bytes(data);
    std::string_view view = bytes.view();
    uint64_t hash;
    if (view.size() < sizeof hash) return false;
    size_t size = view.size() - sizeof hash;
    std::memcpy(&hash, view.data() + size, sizeof hash);
    return hash == hash64(view.data(), size, 0);
}

}  // namespace

NB_MODULE(_core, m) {
#ifndef SASH_SANITIZE
    // A program may end while it holds windows: its user cannot mend that, and need not.
    nb::set_leak_warnings(false);
#endif
    nb::register_exception_translator(translate);
    m.attr("__doc__") = "The data structures in C++, for sash.Window and sash.KeyedWindows.";
    m.def("structures", &structure_names, "Return the names of all structures.");
    m.def("hash64", hash_of, "data"_a, "seed"_a, "Return a 64-bit hash of the bytes and the seed.");
    m.def("hash_rows", hash_rows, "rows"_a, "hashes"_a, "Write the stable hash of each row to an int64 array.");
    m.def("sealed", sealed, "parts"_a, "Return the concatenated parts followed by an 8-byte checksum.");
    m.def("seal_holds", seal_holds, "data"_a, "Return whether the checksum of bytes from `sealed` matches.");

    nb::class_<Window>(m, "Window", nb::type_slots(slots), nb::is_weak_referenceable())
        .def(
            "__init__",
            [](Window* self, nb::handle monoid, const std::string& structure, uint32_t min_arity,
               uint32_t leaf_capacity,
               uint32_t fanout) { new (self) Window(monoid.ptr(), structure, {min_arity, leaf_capacity, fanout}); },
            "monoid"_a, "structure"_a, "min_arity"_a, "leaf_capacity"_a, "fanout"_a)
        .def(
            "insert", [](Window& w, nb::handle time, nb::handle value) { w.insert(time.ptr(), value.ptr()); },
            "time"_a.none(), "value"_a.none(),
            R"(Insert a value. If the time is present, the value is combined on the right, in order of arrival.

O(log d) amortized, where d is the distance to the nearer end.

>>> from sash import Window, monoids
>>> w = Window(monoids.sum())
>>> w.insert(2, 10); w.insert(1, 20); w.insert(2, 30)
>>> w.query(), len(w)
(60, 2))")
        .def(
            "evict", [](Window& w, nb::handle time) { return w.evict(time.ptr()); }, "time"_a.none(),
            R"(Remove the entry at a time, anywhere in the window, and return whether there was one.

O(log d) amortized, where d is the distance to the nearer end.

>>> from sash import Window, monoids
>>> w = Window(monoids.sum())
>>> w.insert_many([1, 2, 3], [10, 20, 30])
>>> w.evict(2), w.evict(2), w.query()
(True, False, 40))")
        .def(
            "query",
            [](Window& w, nb::handle start, nb::handle stop, nb::handle closed) {
                return python(w.query(bounds_of(start, stop, closed)));
            },
            "start"_a.none() = nb::none(), "stop"_a.none() = nb::none(), nb::kw_only(), "closed"_a.none() = "both",
            R"(Return the aggregate of the whole window, or of the times from start to stop; None is an open end.

The whole window is O(1), a range of m entries O(log d_start + log d_stop + log m). `closed` selects which ends are
included: "both", "left", "right" or "neither".

>>> from sash import Window, monoids
>>> w = Window(monoids.sum())
>>> w.insert_many([1, 2, 3], [10, 20, 30])
>>> w.query(), w.query(2, None), w.query(1, 3, closed="left")
(60, 50, 30))")
        .def(
            "evict_until",
            [](Window& w, nb::handle time, nb::handle inclusive) {
                int truth = PyObject_IsTrue(inclusive.ptr());
                succeed(truth);
                return w.evict_until(time.ptr(), truth);
            },
            "time"_a.none(), nb::kw_only(), "inclusive"_a.none() = true,
            R"(Remove all entries up to a time and return their number.

>>> from sash import Window, monoids
>>> w = Window(monoids.sum())
>>> w.insert_many([1, 2, 3], [10, 20, 30])
>>> w.evict_until(2), w.query()
(2, 30))")
        .def("__len__", &Window::size)
        .def(
            "__contains__", [](Window& w, nb::handle time) { return w.contains(time.ptr()); }, "time"_a.none())
        .def(
            "nodes", [](Window& w, nb::handle around) { return python(w.nodes(around.ptr())); },
            "around"_a.none() = nb::none(),
            R"(Return the tree as nested dicts of id, keys, values, aggregate, spine and children; None if empty.

An id is that of one node as long as it exists. "paper" and "classic" also have the coins of the paper's analysis. In
"fiba" all values are in leaves, the aggregate of a stale or spine node is None, and the root has `ends`: the valid
aggregates of the finger stacks and of the spines. "two_stacks" and "daba" have no nodes: one dict has the keys, the
values and the aggregates of all elements, oldest first, `totals`, the aggregates of whole parts, and `cuts`, the places
where the parts begin.

With `around`, a list of times, only the spines and the ways to these times are there with their children. The nodes
below other children are left out, and such a child has the number of `entries` and of `nodes` and the `first` and `last`
time from there on. This is quick for large trees.

>>> from sash import Window, monoids
>>> w = Window(monoids.sum(), structure="paper")
>>> w.insert_many([1, 2, 3], [10, 20, 30])
>>> w.nodes()["keys"], w.nodes()["aggregate"]
([1, 2, 3], 60))")
        .def("check_invariants", &Window::check,
             R"(Raise an InvariantError if the order, shape, sizes or any stored aggregate is wrong. O(n).)")
        .def_prop_ro(
            "oldest", [](Window& w) { return python(w.oldest()); }, "The oldest time, or None. O(1).")
        .def_prop_ro(
            "newest", [](Window& w) { return python(w.newest()); }, "The newest time, or None. O(1).")
        .def_prop_ro("combines", &Window::combines, "The number of times that the monoid has combined two states.")
        .def_prop_ro("spent", &Window::spent, "The number of splits, merges and moves: the coins spent, in the paper.")
        .def_prop_ro(
            "monoid", [](Window& w) { return nb::borrow(w.monoid().get()); }, "The monoid of this window.")
        .def("_nothing", [](Window&) {})  // the cost of a call, for benchmarks to compare with
        .def_prop_ro("_kinds", kinds_property)
        .def_prop_ro("_version", &Window::version)
        .def("_result_type", result_type, "kinds"_a)
        .def(
            "_result_kinds",
            [](Window& w, const nb::tuple& kinds) { return python(w.result_kinds_for(kinds_from(kinds.ptr()))); },
            "kinds"_a)
        .def(
            "_insert_many",
            [](Window& w, const nb::tuple& kinds, nb::handle times, nb::handle values) {
                ColumnArgument time_column(times), value_column(values);
                w.insert_many(kinds_from(kinds.ptr()), time_column.get(), value_column.get());
            },
            "kinds"_a, "times"_a, "values"_a)
        .def("_slide", slide, "kinds"_a, "times"_a, "values"_a, "size"_a.none(), "count"_a, "out"_a.none())
        .def(
            "_scan",
            [](Window& w, nb::handle start, nb::handle stop, nb::handle closed, bool reverse, size_t limit,
               const std::string& shown) {
                Shown what = shown == "states" ? Shown::states : shown == "times" ? Shown::times : Shown::results;
                return python(w.scan(bounds_of(start, stop, closed), reverse, limit, what));
            },
            "start"_a.none(), "stop"_a.none(), "closed"_a.none(), "reverse"_a, "limit"_a, "shown"_a)
        .def(
            "_time_rounds",
            [](Window& w, nb::handle times, nb::handle values, size_t count, nb::handle rounds_ns,
               nb::handle queries_ns) {
                ColumnArgument time_column(times), value_column(values), rounds(rounds_ns, true),
                    queries(queries_ns, true);
                Slide slide;
                slide.times = time_column.get();
                slide.values = value_column.get();
                slide.count = count;
                w.time_rounds(slide, rounds.output().words, queries.output().words);
            },
            "times"_a, "values"_a, "count"_a, "rounds_ns"_a, "queries_ns"_a)
        .def("_run_rounds", run_rounds, "times"_a, "values"_a, "count"_a, "starts"_a.none(), "twin"_a.none(),
             "twin_count"_a)
        .def(
            "_run_batches",
            [](Window& w, nb::handle times, nb::handle values, nb::handle cuts, size_t rows) {
                ColumnArgument time_column(times), value_column(values), cut_column(cuts);
                w.run_batches({time_column.get(), value_column.get(), cut_column.get(), rows});
            },
            "times"_a, "values"_a, "cuts"_a, "rows"_a)
        .def("_freeze", contents_of)
        .def(
            "_load",
            [](Window& w, const nb::tuple& kinds, nb::list times, nb::list states, bool wide) {
                w.load(kinds_from(kinds.ptr()), {Ref::borrow(times.ptr()), Ref::borrow(states.ptr())}, wide);
            },
            "kinds"_a, "times"_a, "states"_a, "wide"_a)
        .def("_pack", packed)
        .def(
            "_unpack",
            [](Window& w, const nb::tuple& kinds, nb::handle times, nb::handle entries, size_t rows, bool wide) {
                Bytes time_bytes(times), entry_bytes(entries);
                w.unpack(kinds_from(kinds.ptr()), {time_bytes.view(), entry_bytes.view(), rows}, wide);
            },
            "kinds"_a, "times"_a, "entries"_a, "rows"_a, "wide"_a)
        .def("_copy_from", [](Window& w, Window& other) { w.copy_from(other); }, "other"_a);

    bind_keyed(m);
    bind_event(m);
}
