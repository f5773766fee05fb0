// One event in and its results out, and the results of one key, as plain Python values.
//
// It is what a push of one row does, in one call. Whatever is out of the ordinary, it leaves to the push before it has
// changed anything, and returns NotImplemented: an error, a value that Arrow must convert, a time out of range.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "base/hash.hpp"
#include "engine/packed.hpp"
#include "python/arguments.hpp"
#include "python/keyed_engine.hpp"
#include "python/values.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sash {

namespace {

constexpr int kNone = -1;

Ref interned(const char* text) { return Ref::checked(PyUnicode_InternFromString(text)); }

// An attribute that is an int64 or None, of an object's attributes. False: it is larger.
bool number_of(const Ref& attributes, const Ref& name, std::optional<int64_t>& number) {
    PyObject* value = PyDict_GetItemWithError(attributes.get(), name.get());
    number.reset();
    if (value == Py_None) return true;
    if (!value) fail(ErrorKind::invariant, "an event needs " + shown(name.get()) + " of its stream.");
    int overflow = 0;
    number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (*number == -1 && PyErr_Occurred()) throw PythonError{};
    return !overflow;
}
void set_number(const Ref& attributes, const Ref& name, int64_t number) {
    succeed(PyDict_SetItem(attributes.get(), name.get(), python_int(number).get()));
}

bool same_text(PyObject* a, PyObject* b) {
    if (a == b) return true;
    if (PyUnicode_GET_LENGTH(a) != PyUnicode_GET_LENGTH(b) || PyUnicode_KIND(a) != PyUnicode_KIND(b)) return false;
    size_t size = static_cast<size_t>(PyUnicode_GET_LENGTH(a)) * PyUnicode_KIND(a);
    return std::memcmp(PyUnicode_DATA(a), PyUnicode_DATA(b), size) == 0;
}

ValueType type_in(const nb::dict& plain) {
    ValueType type;
    type.kind = static_cast<ValueKind>(nb::cast<std::string>(plain["kind"])[0]);
    type.bits = nb::cast<uint32_t>(plain["bits"]);
    type.per_second = nb::cast<int64_t>(plain["per_second"]);
    type.zone = Ref::borrow(nb::handle(plain["zone"]).ptr());
    type.zoned = !type.zone.is_none();
    type.in_utc = nb::cast<bool>(plain["in_utc"]);
    nb::handle shown = plain["shown"];
    if (!shown.is_none()) type.shown = Ref::borrow(shown.ptr());
    return type;
}

// How a result is made of the core's words: of one part, or of several as a dict; of none where Python computes it.
struct Shape {
    enum Kind { words, fields, list, bytes, parts, nothing } kind = nothing;
    std::string kinds;
    size_t part = 0, at = 0, size = 0;  // of the core's parts; its words
    bool may_fail = false;              // a geometric mean says so by a word
    std::vector<Ref> names;             // of its fields or parts
    std::vector<Shape> inner;
};

// Results that are null because they do not fit, or cannot be computed.
struct Failures {
    int64_t overflows = 0, failures = 0;
};

}  // namespace

class OneEvent {
   public:
    explicit OneEvent(const nb::dict& plan) : engine_(nb::borrow(plan["engine"])), keyed_(engine()) {
        open_values();
        position_ = ref_in(plan, "position");
        horizon_ = ref_in(plan, "horizon");
        stream_ = ref_in(plan, "stream");
        counts_ = ref_in(plan, "counts");
        for (nb::handle column : nb::cast<nb::list>(plan["columns"])) {
            nb::dict one = nb::cast<nb::dict>(column);
            names_.push_back(Ref::borrow(nb::handle(one["name"]).ptr()));
            types_.push_back(type_in(one));
        }
        keys_ = nb::cast<std::vector<int>>(plan["keys"]);
        compared_ = nb::cast<std::vector<int>>(plan["compared"]);
        time_ = nb::cast<int>(plan["time"]);
        id_ = nb::cast<int>(plan["id"]);
        retract_ = nb::cast<int>(plan["retract"]);
        for (nb::handle input : nb::cast<nb::list>(plan["inputs"])) {
            inputs_.push_back(nb::cast<int>(input[0]));
            input_kinds_.push_back(nb::cast<std::string>(input[1])[0]);
        }
        lateness_ = nb::cast<int64_t>(plan["lateness"]);
        left_ = nb::cast<bool>(plan["left"]);
        shows_late_ = nb::cast<bool>(plan["shows_late"]);
        strict_ = nb::cast<bool>(plan["strict"]);
        windows_ = nb::cast<size_t>(plan["windows"]);
        find_parts();
        for (nb::handle result : nb::cast<nb::list>(plan["results"])) {
            result_names_.push_back(Ref::borrow(nb::handle(result[0]).ptr()));
            result_windows_.push_back(nb::cast<size_t>(result[1]));
            shapes_.push_back(shape_of(result[2]));
        }
        if (shows_late_) late_name_ = interned("late");
        values_.resize(types_.size());
        objects_.resize(types_.size());
        words_.resize(inputs_.size() + 1);
        nulls_.resize(inputs_.size() + 1);
        for (size_t i = 0; i < inputs_.size(); ++i) {
            columns_.emplace_back();
            columns_[i].words = &words_[i];
            columns_[i].nulls = &nulls_[i];
        }
        make_room();
    }

    // The row with its results as a dict, or None where there are none; NotImplemented: push it. A name: its result
    // failed, and nothing has changed.
    nb::object event(nb::handle row, nb::handle watermark) {
        Release values(*this);
        if (!stream_ || !PyDict_CheckExact(row.ptr()) || !read_row(row.ptr())) return not_here();
        Step step;
        if (!read_step(watermark.ptr(), step)) return not_here();
        const Value &time = values_[index(time_)], *id = id_ == kNone ? nullptr : &values_[index(id_)];
        if (time.null || (id && id->null)) return skip(step, time.null);
        if (!read_inputs()) return not_here();
        OneRow one = row_in(step);
        key_.clear();
        for (int key : keys_) append_key(types_[index(key)], values_[index(key)], key_);
        size_t ids = keyed_.names().size();
        int64_t number = 0;
        if (id) {
            number = id_of(*id);
            one.id = &number;
        }
        uint32_t slot = keyed_.slot_of(key_);
        Column column;
        column.inputs = columns_.data();
        column.input_count = columns_.size();
        column.size = 1;
        uint8_t status = keyed_.apply_one(slot, one, column);
        Ref shown = none();
        if (status == Keyed::inserted) {
            keyed_.answer_one({slot, true, one.time, one.id ? *one.id : one.seq, one.seq}, outs_);
            Failures failures;
            Ref failed;
            shown = shown_row(&failures, failed);
            if (failed) {
                keyed_.take_back(slot, one);
                keyed_.names().forget_from(ids);
                return python(failed);
            }
            count(emitted_name, 1);
            count(overflows_name, failures.overflows);
            count(failures_name, failures.failures);
        } else if (status == Keyed::too_late) {
            count(late_name, 1);
            if (shows_late_) shown = late_row();
        } else if (status == Keyed::repeated) {
            count(repeated_name, 1);
        } else if (status == Keyed::unmatched) {
            count(unmatched_name, 1);
        }
        if (!one.late && (!step.newest || *step.newest < one.time)) set_number(position_, newest_name, one.time);
        set_number(position_, seq_name, step.seq + 1);
        finish(step);
        return python(shown);
    }

    // The results of a key as of a time as a dict; None is the earliest time whose windows hold the newest row.
    nb::object now(nb::handle key, nb::handle at) {
        if (!stream_ || !PyDict_CheckExact(key.ptr()) ||
            static_cast<size_t>(PyDict_GET_SIZE(key.ptr())) != keys_.size())
            return not_here();
        key_.clear();
        for (int column : keys_) {
            PyObject* object = PyDict_GetItemWithError(key.ptr(), names_[index(column)].get());
            if (!object && PyErr_Occurred()) throw PythonError{};
            if (!object || !read_value(types_[index(column)], object, values_[index(column)])) return not_here();
            append_key(types_[index(column)], values_[index(column)], key_);
        }
        std::optional<int64_t> time, newest, dropped, settled;
        if (!at.is_none()) {
            Value value;
            if (!read_value(types_[index(time_)], at.ptr(), value) || value.null) return not_here();
            time = value.word;
        } else {
            if (!number_of(position_, newest_name, newest) || !newest) return not_here();
            if (left_ && *newest == INT64_MAX) return not_here();
            time = *newest + left_;
        }
        int64_t earliest;
        if (!number_of(stream_, dropped_name, dropped) || !dropped) return not_here();
        if (!number_of(stream_, settled_name, settled) || !settled) return not_here();
        if (keyed_.frame().counts() && *time < *settled) return not_here();
        if (*dropped == INT64_MIN) return results(keyed_.find_slot(key_), *time);
        if (!keyed_.frame().first_after(*dropped, earliest) || *time < earliest) return not_here();
        return results(keyed_.find_slot(key_), *time);
    }

    // For the collector of cycles: functions of a stream's monoids may lean on whatever has this.
    int visit(visitproc visit, void* arg) {  // Py_VISIT wants these names
        Py_VISIT(engine_.ptr());
        for (Ref* owned : {&stream_, &position_, &horizon_, &counts_, &blank_}) Py_VISIT(owned->get());
        for (Ref& value : given_) Py_VISIT(value.get());
        for (ValueType& type : types_) Py_VISIT(type.shown.get());
        return 0;
    }
    void clear() {
        for (Ref* owned : {&stream_, &position_, &horizon_, &counts_, &blank_}) *owned = Ref();
        for (ValueType& type : types_) type.shown = Ref();
        form_.clear();
    }

   private:
    // Where the stream is, and what the event does to it.
    struct Step {
        std::optional<int64_t> newest, horizon, watermark, last_watermark;
        int64_t seq = 0, revision = 0, dropped = INT64_MIN, settled = INT64_MIN;
        bool moves = false;  // does the horizon?
    };

    // What a row holds is not kept longer than needed.
    struct Release {
        explicit Release(OneEvent& event) : event(event) {}
        ~Release() {
            for (Ref& value : event.given_) value = Ref();
        }
        OneEvent& event;
    };

    static size_t index(int column) { return static_cast<size_t>(column); }
    static nb::object not_here() { return nb::borrow(Py_NotImplemented); }
    static Ref ref_in(const nb::dict& plan, const char* name) { return Ref::borrow(nb::handle(plan[name]).ptr()); }
    Keyed& engine() const { return nb::cast<KeyedEngine&>(engine_).keyed; }

    // --- how it is made

    void find_parts() {
        size_t at = 0;
        for (const Op& op : keyed_.plan().ops()) {
            part_words_.push_back(at);
            at += op.outputs;
        }
    }
    // A number is a part of the core: (its place, shape, kinds, names of fields); a dict has several; None is Python's.
    Shape shape_of(nb::handle plain) {
        Shape shape;
        if (plain.is_none()) return shape;
        if (nb::isinstance<nb::dict>(plain)) {
            shape.kind = Shape::parts;
            for (auto [name, inner] : nb::cast<nb::dict>(plain)) {
                shape.names.push_back(Ref::borrow(name.ptr()));
                shape.inner.push_back(shape_of(inner));
            }
            return shape;
        }
        shape.part = nb::cast<size_t>(plain[0]);
        std::string form = nb::cast<std::string>(plain[1]);
        shape.kinds = nb::cast<std::string>(plain[2]);
        for (nb::handle name : nb::cast<nb::tuple>(plain[3])) shape.names.push_back(Ref::borrow(name.ptr()));
        const Op& op = keyed_.plan().ops()[shape.part];
        shape.at = part_words_[shape.part];
        shape.size = op.outputs;
        shape.may_fail = op.refuses_negative;
        shape.kind = form == "list"         ? Shape::list
                     : form == "bytes"      ? Shape::bytes
                     : !shape.names.empty() ? Shape::fields
                                            : Shape::words;
        return shape;
    }
    void make_room() {
        size_t words = keyed_.plan().result_words(), parts = keyed_.plan().parts();
        room_.resize(words * windows_);
        there_.resize(parts * windows_);
        outs_.resize(windows_);
        for (size_t w = 0; w < windows_; ++w) {
            outs_[w].words = room_.data() + w * words;
            outs_[w].there = there_.data() + w * parts;
            outs_[w].rows = 1;
        }
    }

    // --- rows in

    // Columns come in the same order almost always, so they are found by their places in the last row.
    bool read_row(PyObject* row) {
        if (!fits_form(row) && !learn_form(row)) return false;
        for (size_t i = 0; i < form_.size(); ++i)
            if (form_[i] != kNone) {
                size_t column = index(form_[i]);
                objects_[column] = given_[i].get();
                if (!read_value(types_[column], objects_[column], values_[column])) return false;
            }
        return true;
    }
    bool fits_form(PyObject* row) {
        if (static_cast<size_t>(PyDict_GET_SIZE(row)) != form_.size() || form_.empty()) return false;
        PyObject *name, *value;
        Py_ssize_t at = 0;
        for (size_t i = 0; PyDict_Next(row, &at, &name, &value); ++i) {
            if (i >= form_.size()) return false;
            if (name != form_names_[i].get() && (!PyUnicode_CheckExact(name) || !same_text(name, form_names_[i].get())))
                return false;
            given_[i] = Ref::borrow(value);
        }
        return true;
    }
    bool learn_form(PyObject* row) {
        form_.clear();
        form_names_.clear();
        given_.clear();
        blank_ = Ref::checked(PyDict_New());
        size_t found = 0;
        PyObject *name, *value;
        for (Py_ssize_t at = 0; PyDict_Next(row, &at, &name, &value);) {
            if (!PyUnicode_CheckExact(name)) return forget_form();
            int column = kNone;
            for (size_t i = 0; i < names_.size(); ++i)
                if (same_text(names_[i].get(), name)) column = static_cast<int>(i);
            found += column != kNone;
            form_.push_back(column);
            form_names_.push_back(Ref::borrow(name));
            given_.push_back(Ref::borrow(value));
            succeed(PyDict_SetItem(blank_.get(), name, Py_None));
        }
        for (const Ref& result : result_names_) add_blank(result);
        if (shows_late_) add_blank(late_name_);
        size_t all = form_.size() + result_names_.size() + shows_late_;
        if (found != names_.size() || static_cast<size_t>(PyDict_GET_SIZE(blank_.get())) != all) return forget_form();
        return true;
    }
    void add_blank(const Ref& name) { succeed(PyDict_SetItem(blank_.get(), name.get(), Py_None)); }
    bool forget_form() {
        form_.clear();
        return false;
    }
    bool read_inputs() {
        for (size_t i = 0; i < inputs_.size(); ++i) {
            size_t column = index(inputs_[i]);
            const Value& value = values_[column];
            nulls_[i] = value.null;
            if (!input_word(types_[column], input_kinds_[i], objects_[column], value, words_[i])) return false;
        }
        if (!strict_) return true;
        for (const Op& op : keyed_.plan().ops())
            if (op.refuses_negative && !nulls_[op.inputs[0]] && real(words_[op.inputs[0]]) < 0) return false;
        return true;
    }
    OneRow row_in(const Step& step) {
        OneRow row{};
        row.time = values_[index(time_)].word;
        row.seq = step.seq;
        row.late = step.horizon && row.time < *step.horizon;
        row.may_delete = retract_ != kNone;
        row.deletes = row.may_delete && !values_[index(retract_)].null && values_[index(retract_)].word;
        if (!compared_.empty()) {
            key_.clear();
            for (int column : compared_) append_compared(types_[index(column)], values_[index(column)], key_);
            row.identity = static_cast<int64_t>(hash64(key_.data(), key_.size(), 1));
        }
        return row;
    }
    int64_t id_of(const Value& id) {
        if (id.data) return keyed_.names().number_of({id.data, id.size});
        return id_word(types_[index(id_)], id);
    }

    // --- where the stream is

    bool read_step(PyObject* watermark, Step& step) {
        std::optional<int64_t> seq, revision, dropped, settled;
        if (!number_of(position_, newest_name, step.newest) || !number_of(position_, seq_name, seq) ||
            !number_of(position_, revision_name, revision) || !number_of(horizon_, at_name, step.horizon) ||
            !number_of(horizon_, watermark_name, step.last_watermark) || !number_of(stream_, dropped_name, dropped) ||
            !number_of(stream_, settled_name, settled))
            return false;
        step.dropped = *dropped;
        step.settled = *settled;
        step.seq = *seq;
        step.revision = *revision;
        step.watermark = step.newest;
        if (watermark != Py_None) {
            Value value;
            if (!read_value(types_[index(time_)], watermark, value)) return false;
            step.watermark = value.word;
        }
        if (!step.watermark) return true;
        int64_t reached;
        if (__builtin_sub_overflow(*step.watermark, lateness_, &reached)) return false;
        if (!step.horizon || reached > *step.horizon) {
            step.horizon = reached;
            step.moves = true;
        }
        return true;
    }
    // What every step does in the end; a row without a time, or without an id, does nothing else.
    void finish(const Step& step) {
        count(rows_in_name, 1);
        set_number(position_, revision_name, step.revision + 1);
        if (step.moves) set_number(horizon_, at_name, *step.horizon);
        if (step.watermark && (!step.last_watermark || *step.last_watermark < *step.watermark))
            set_number(horizon_, watermark_name, *step.watermark);
        if (!step.horizon) return;
        int64_t bound = keyed_.frame().dropped_at(*step.horizon, *step.horizon);
        keyed_.expire(bound, *step.horizon);
        if (bound > step.dropped) set_number(stream_, dropped_name, bound);
        if (*step.horizon > step.settled) set_number(stream_, settled_name, *step.horizon);
    }
    nb::object skip(const Step& step, bool timeless) {
        count(timeless ? bad_times_name : bad_ids_name, 1);
        finish(step);
        return nb::none();
    }
    void count(const Ref& name, int64_t more) {
        if (!more) return;
        PyObject* before = PyDict_GetItemWithError(counts_.get(), name.get());
        if (!before) throw PythonError{};
        Ref after = Ref::checked(PyNumber_Add(before, python_int(more).get()));
        succeed(PyDict_SetItem(counts_.get(), name.get(), after.get()));
    }

    // --- results out

    Ref shown_row(Failures* failures, Ref& failed) {
        Ref row = Ref::checked(PyDict_Copy(blank_.get()));
        for (size_t i = 0; i < form_.size(); ++i) put(row, form_names_[i], shown_column(i));
        for (size_t i = 0; i < shapes_.size(); ++i) {
            Failures own;
            Ref value = value_of(shapes_[i], outs_[result_windows_[i]], own);
            if (strict_ && (own.overflows || own.failures)) {
                PyObject* why = own.overflows ? Py_True : Py_False;
                failed = Ref::checked(PyTuple_Pack(2, result_names_[i].get(), why));
                return none();
            }
            failures->overflows += own.overflows;
            failures->failures += own.failures;
            put(row, result_names_[i], value);
        }
        if (shows_late_) put(row, late_name_, Ref::borrow(Py_False));
        return row;
    }
    Ref late_row() {
        Ref row = Ref::checked(PyDict_Copy(blank_.get()));
        for (size_t i = 0; i < form_.size(); ++i) put(row, form_names_[i], shown_column(i));
        put(row, late_name_, Ref::borrow(Py_True));
        return row;
    }
    Ref shown_column(size_t i) const {
        if (form_[i] == kNone) return given_[i];
        size_t column = index(form_[i]);
        return shown_value(types_[column], objects_[column], values_[column]);
    }
    static void put(Ref& row, const Ref& name, const Ref& value) {
        succeed(PyDict_SetItem(row.get(), name.get(), value.get()));
    }

    nb::object results(uint32_t slot, int64_t time) {
        keyed_.answer_one({slot, false, time, 0, 0}, outs_);
        Ref all = Ref::checked(PyDict_New());
        for (size_t i = 0; i < shapes_.size(); ++i) {
            Failures failures;
            Ref value = value_of(shapes_[i], outs_[result_windows_[i]], failures);
            if (strict_ && (failures.overflows || failures.failures)) {
                PyObject* why = failures.overflows ? Py_True : Py_False;
                return python(Ref::checked(PyTuple_Pack(2, result_names_[i].get(), why)));
            }
            put(all, result_names_[i], value);
        }
        return python(all);
    }

    static Ref word_value(char kind, int64_t word) {
        if (kind == 'f') return python_float(real(word));
        return kind == 'b' ? Ref::borrow(word ? Py_True : Py_False) : python_int(word);
    }
    static Ref value_of(const Shape& shape, const RecordOutput& out, Failures& failures) {
        if (shape.kind == Shape::nothing) return none();
        if (shape.kind == Shape::parts) {
            Ref all = Ref::checked(PyDict_New());
            for (size_t i = 0; i < shape.inner.size(); ++i)
                put(all, shape.names[i], value_of(shape.inner[i], out, failures));
            return all;
        }
        const int64_t* words = out.words + shape.at;
        bool there = out.there[shape.part];
        if (shape.may_fail && !there && words[0] == 1) ++failures.failures;
        if (!there) return none();
        if (shape.kind == Shape::bytes)
            return python_bytes(shape.size * sizeof(int64_t), reinterpret_cast<const char*>(words));
        if (shape.kind == Shape::list) {
            Ref items = Ref::checked(PyList_New(words[0]));
            for (int64_t i = 0; i < words[0]; ++i)
                PyList_SET_ITEM(items.get(), i, word_value(shape.kinds[0], words[i + 1]).release());
            return items;
        }
        if (overflows(shape, words, failures)) return none();
        if (shape.kind == Shape::words) return word_value(shape.kinds[0], words[0]);
        Ref all = Ref::checked(PyDict_New());
        for (size_t i = 0; i < shape.names.size(); ++i) {
            put(all, shape.names[i], word_value(shape.kinds[i], words[0]));
            words += 1 + (shape.kinds[i] == 'I');
        }
        return all;
    }
    // Integers of two words that do not fit one.
    static bool overflows(const Shape& shape, const int64_t* words, Failures& failures) {
        for (char kind : shape.kinds) {
            if (kind == 'I' && words[1] != words[0] >> 63) return ++failures.overflows, true;
            words += 1 + (kind == 'I');
        }
        return false;
    }

    nb::object engine_;
    Keyed& keyed_;
    Ref stream_, position_, horizon_, counts_;  // as dicts: the attributes of a stream and of its parts, and counts
    std::vector<Ref> names_;                    // of the columns that are read
    std::vector<ValueType> types_;
    std::vector<int> keys_, compared_, inputs_;  // columns by their places
    int time_ = kNone, id_ = kNone, retract_ = kNone;
    std::string input_kinds_;
    int64_t lateness_ = 0;
    bool left_ = false, shows_late_ = false, strict_ = false;
    size_t windows_ = 0;
    std::vector<size_t> part_words_, result_windows_;
    std::vector<Ref> result_names_;
    std::vector<Shape> shapes_;
    Ref late_name_;

    // The columns of the last row: which of those that are read each is, and a dict of them and of results.
    std::vector<int> form_;
    std::vector<Ref> form_names_, given_;
    Ref blank_;

    // The row at work, and its results.
    std::vector<Value> values_;
    std::vector<PyObject*> objects_;
    std::vector<int64_t> words_, room_;
    std::vector<uint8_t> nulls_, there_;
    std::vector<Column> columns_;
    std::vector<RecordOutput> outs_;
    std::string key_;

    const Ref newest_name = interned("newest"), seq_name = interned("seq"), revision_name = interned("revision");
    const Ref at_name = interned("at"), watermark_name = interned("watermark"), dropped_name = interned("dropped");
    const Ref settled_name = interned("settled");
    const Ref rows_in_name = interned("rows_in"), bad_times_name = interned("bad_times");
    const Ref bad_ids_name = interned("bad_ids"), late_name = interned("late"), repeated_name = interned("repeated");
    const Ref unmatched_name = interned("unmatched"), emitted_name = interned("emitted");
    const Ref overflows_name = interned("overflows"), failures_name = interned("failures");
};

namespace {

int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    return nb::inst_ready(self) ? nb::inst_ptr<OneEvent>(self)->visit(visit, arg) : 0;
}

int clear(PyObject* self) {
    if (nb::inst_ready(self)) nb::inst_ptr<OneEvent>(self)->clear();
    return 0;
}

PyType_Slot slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {Py_tp_clear, reinterpret_cast<void*>(clear)}, {0, nullptr}};

}  // namespace

void bind_event(nb::module_& m) {
    nb::class_<OneEvent>(m, "OneEvent", nb::type_slots(slots))
        .def(nb::init<const nb::dict&>(), "plan"_a)
        .def("event", &OneEvent::event, "row"_a.none(), "watermark"_a.none())
        .def("now", &OneEvent::now, "key"_a.none(), "at"_a.none());
}

}  // namespace sash
