// The Python face of keyed windows: bindings and nothing else.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "base/hash.hpp"
#include "engine/packed.hpp"
#include "python/arguments.hpp"
#include "python/keyed_engine.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace sash {

namespace {

// --- how it is made ------------------------------------------------------------------------------

int64_t number_in(const nb::dict& frame, const char* name) { return nb::cast<int64_t>(frame[name]); }
bool truth_in(const nb::dict& frame, const char* name) { return nb::cast<bool>(frame[name]); }

std::shared_ptr<const Calendar> calendar_of(nb::handle calendar) {
    return calendar.is_none() ? nullptr : std::make_shared<const Calendar>(nb::cast<const Calendar&>(calendar));
}

// A pair of its kind and its size, which is a calendar for periods.
Extent extent_of(nb::handle window) {
    static const char* const kinds[] = {"span", "rows", "period", "unbounded", "ahead"};
    std::string name = nb::cast<std::string>(window[0]);
    auto found = std::find(std::begin(kinds), std::end(kinds), name);
    if (found == std::end(kinds)) fail(ErrorKind::argument, "windows must be of a kind that there is.", "windows");
    Extent extent;
    extent.kind = static_cast<Extent::Kind>(found - std::begin(kinds));
    if (extent.kind == Extent::period)
        extent.calendar = std::make_shared<const Calendar>(nb::cast<const Calendar&>(window[1]));
    else
        extent.size = nb::cast<int64_t>(window[1]);
    return extent;
}

void make_calendar(Calendar* self, const std::string& period, int64_t ticks_per_second,
                   const std::vector<int64_t>& changes, const std::vector<int64_t>& offsets) {
    static const char* const periods[] = {"day", "week", "month", "quarter", "year"};
    auto found = std::find(std::begin(periods), std::end(periods), period);
    if (found == std::end(periods) || offsets.size() != changes.size() + 1 || ticks_per_second < 1)
        fail(ErrorKind::argument, "period must be one of a calendar, and offsets one more than changes.", "period");
    auto zone = std::make_shared<const Zone>(changes, offsets);
    new (self) Calendar(static_cast<Period>(found - std::begin(periods)), ticks_per_second, std::move(zone));
}

void make_keyed(KeyedEngine* self, nb::handle monoid, const std::string& kinds, bool instants, nb::handle codec,
                const nb::dict& options) {
    TimeFormat format{instants ? TimeKind::instant : TimeKind::integer, {}};
    if (instants) format.codec = Ref::borrow(codec.ptr());
    auto plan = std::make_shared<const Plan>(monoid.ptr(), kinds, format);
    Frame frame;
    for (nb::handle window : nb::cast<nb::list>(options["windows"])) frame.windows.push_back(extent_of(window));
    frame.starts_inside = truth_in(options, "starts_inside");
    frame.ends_inside = truth_in(options, "ends_inside");
    frame.periods = calendar_of(options["periods"]);
    frame.idle = number_in(options, "idle");
    frame.min_rows = number_in(options, "min_rows");
    frame.remembers = truth_in(options, "remembers");
    frame.named = truth_in(options, "named");
    frame.every = number_in(options, "every");
    frame.offset = number_in(options, "offset");
    frame.pane = number_in(options, "pane");
    frame.pane_offset = number_in(options, "pane_offset");
    frame.merged = truth_in(options, "merged");
    frame.rounded = truth_in(options, "rounded");
    frame.identified = truth_in(options, "identified");
    frame.shown = truth_in(options, "shown");
    frame.leaf_capacity = static_cast<uint32_t>(number_in(options, "leaf_capacity"));
    frame.fanout = static_cast<uint32_t>(number_in(options, "fanout"));
    new (self) KeyedEngine{Ref::borrow(monoid.ptr()), Keyed(std::move(plan), std::move(frame))};
}

// For each part: "words", "list" or "bytes", the kinds, and how many words.
nb::list result_shapes(KeyedEngine& engine) {
    nb::list shapes;
    for (const Op& op : engine.keyed.plan().ops()) {
        Outputs outputs = op.table->outputs(op);
        const char* shape = outputs.shape == Outputs::Shape::words  ? "words"
                            : outputs.shape == Outputs::Shape::list ? "list"
                                                                    : "bytes";
        shapes.append(nb::make_tuple(shape, outputs.kinds, op.outputs));
    }
    return shapes;
}

// --- arguments -----------------------------------------------------------------------------------

template <class T>
T* data_of(Bytes& bytes) {
    return reinterpret_cast<T*>(bytes.data());
}

// An array, or None.
template <class T>
class Optional {
   public:
    explicit Optional(nb::handle object) {
        if (!object.is_none()) bytes_ = std::make_unique<Bytes>(object);
    }
    const T* get() const { return bytes_ ? reinterpret_cast<const T*>(bytes_->view().data()) : nullptr; }

   private:
    std::unique_ptr<Bytes> bytes_;
};

// Ids are None, numbers, or a pair of offsets and bytes.
class Ids {
   public:
    Ids(nb::handle ids, Names& names) {
        if (ids.is_none()) return;
        if (!PyTuple_Check(ids.ptr())) {
            words_ = std::make_unique<Bytes>(ids);
            return;
        }
        Bytes offsets(nb::handle(PyTuple_GetItem(ids.ptr(), 0))), data(nb::handle(PyTuple_GetItem(ids.ptr(), 1)));
        const int64_t* offset = data_of<int64_t>(offsets);
        size_t rows = offsets.view().size() / sizeof(int64_t) - 1;
        for (size_t i = 0; i < rows; ++i)
            numbers_.push_back(names.number_of(
                data.view().substr(static_cast<size_t>(offset[i]), static_cast<size_t>(offset[i + 1] - offset[i]))));
        named_ = true;
    }
    const int64_t* get() const {
        if (named_) return numbers_.data();
        return words_ ? reinterpret_cast<const int64_t*>(words_->view().data()) : nullptr;
    }

   private:
    std::unique_ptr<Bytes> words_;
    std::vector<int64_t> numbers_;
    bool named_ = false;
};

// One pair of (words, there) for each window size.
class Rooms {
   public:
    Rooms(const nb::list& rooms, size_t rows) : outs(nb::len(rooms)) {
        for (size_t i = 0; i < outs.size(); ++i) {
            nb::tuple room = nb::cast<nb::tuple>(rooms[i]);
            outs[i].words = reinterpret_cast<int64_t*>(open(room[0]));
            outs[i].there = reinterpret_cast<uint8_t*>(open(room[1]));
            outs[i].rows = rows;
        }
    }
    std::vector<RecordOutput> outs;

   private:
    char* open(nb::handle part) {
        held_.push_back(std::make_unique<Bytes>(part, true));
        return held_.back()->data();
    }
    std::vector<std::unique_ptr<Bytes>> held_;
};

template <class T>
nb::object bytes_of(const std::vector<T>& items) {
    return python(python_bytes(items.size() * sizeof(T), reinterpret_cast<const char*>(items.data())));
}

// --- rows ----------------------------------------------------------------------------------------

KeyBatch batch_of(KeyedEngine& engine, nb::handle schema, nb::handle array, size_t rows, int64_t seq) {
    if (array.is_none()) return engine.keyed.batch_of(nullptr, rows, seq);
    KeyColumns keys(schema.ptr(), array.ptr());
    return engine.keyed.batch_of(&keys, rows, seq);
}

template <class Take>
void each_hash(nb::handle schema, nb::handle array, Take&& take) {
    KeyColumns keys(schema.ptr(), array.ptr());
    std::string key;
    for (size_t row = 0; row < keys.rows(); ++row) {
        key.clear();
        keys.append(key, row);
        take(row, hash64(key.data(), key.size(), 1));
    }
}

void buckets_of(nb::handle schema, nb::handle array, uint64_t count, nb::handle into) {
    Bytes bytes(into, true);
    each_hash(schema, array,
              [&](size_t row, uint64_t hash) { data_of<int32_t>(bytes)[row] = static_cast<int32_t>(hash % count); });
}

void hashes_of(nb::handle schema, nb::handle array, nb::handle into) {
    Bytes bytes(into, true);
    each_hash(schema, array, [&](size_t row, uint64_t hash) { data_of<uint64_t>(bytes)[row] = hash; });
}

void apply_batch(KeyedEngine& engine, const KeyBatch& batch, nb::handle times, nb::handle ids, nb::handle deletes,
                 nb::handle late, nb::handle inputs, nb::handle status, nb::handle identities) {
    engine.keyed.require_current(batch.generation);
    Bytes time_bytes(times), status_bytes(status, true);
    Ids numbers(ids, engine.keyed.names());
    Optional<uint8_t> delete_bytes(deletes), late_bytes(late);
    Optional<int64_t> identity_words(identities);
    if (engine.keyed.identified() && !numbers.get() && !identity_words.get() && delete_bytes.get())
        fail(ErrorKind::argument, "identities must be passed with deletes.", "identities");
    ColumnArgument columns(inputs);
    nb::gil_scoped_release others;  // may run, and look at the progress
    engine.keyed.apply(batch, data_of<int64_t>(time_bytes), numbers.get(), delete_bytes.get(), late_bytes.get(),
                       identity_words.get(), columns.get(), data_of<uint8_t>(status_bytes));
}

void join_panes(KeyedEngine& engine, const KeyBatch& batch, nb::handle times, nb::handle records, nb::handle late,
                nb::handle status) {
    engine.keyed.require_current(batch.generation);
    Bytes time_bytes(times), record_bytes(records), status_bytes(status, true);
    Optional<uint8_t> late_bytes(late);
    size_t rows = time_bytes.view().size() / sizeof(int64_t);
    if (record_bytes.view().size() != rows * engine.keyed.plan().words() * sizeof(int64_t))
        fail(ErrorKind::corrupt, "panes must be records of these aggregates.", "panes");
    engine.keyed.join(batch, data_of<int64_t>(time_bytes), data_of<int64_t>(record_bytes), late_bytes.get(),
                      data_of<uint8_t>(status_bytes));
}

// Where each pane's key stands among the rows of a batch that has all keys, the panes' times and their records.
nb::object panes_of(KeyedEngine& engine, const KeyBatch& batch) {
    engine.keyed.require_current(batch.generation);
    std::vector<uint32_t> slots;
    std::vector<int64_t> times, records, first;
    engine.keyed.panes(slots, times, records);
    const std::vector<uint32_t>& rows = batch.slots;
    for (size_t row = rows.size(); row-- > 0;) {
        if (first.size() <= rows[row]) first.resize(rows[row] + 1);
        first[rows[row]] = static_cast<int64_t>(row);
    }
    std::vector<int64_t> places;
    for (uint32_t slot : slots) places.push_back(first[slot]);
    return nb::make_tuple(bytes_of(places), bytes_of(times), bytes_of(records));
}

bool roll_batch(KeyedEngine& engine, KeyBatch& batch, nb::handle times, nb::handle inputs, const Anchors* questions,
                const nb::list& rooms) {
    engine.keyed.require_current(batch.generation);
    if (questions) engine.keyed.require_current(questions->generation);
    Bytes time_bytes(times);
    ColumnArgument columns(inputs);
    Rooms all(rooms, questions ? questions->items.size() : time_bytes.view().size() / sizeof(int64_t));
    nb::gil_scoped_release others;
    return engine.keyed.roll(batch, data_of<int64_t>(time_bytes), columns.get(), questions, all.outs);
}

// --- anchors -------------------------------------------------------------------------------------

Anchors arrived_in(KeyedEngine& engine, const KeyBatch& batch, nb::handle times, nb::handle status, nb::handle ids) {
    engine.keyed.require_current(batch.generation);
    Bytes time_bytes(times), status_bytes(status);
    Ids numbers(ids, engine.keyed.names());
    return engine.keyed.arrived(batch, data_of<int64_t>(time_bytes), numbers.get(), data_of<uint8_t>(status_bytes));
}

nb::object seen_until(KeyedEngine& engine, const KeyBatch& batch, nb::handle times) {
    engine.keyed.require_current(batch.generation);
    Bytes bytes(times);
    return bytes_of(engine.keyed.seen_until(batch, data_of<int64_t>(bytes)));
}

nb::tuple expired_in(KeyedEngine& engine) {
    std::vector<int64_t> words;
    Anchors found = engine.keyed.expired(words);
    return nb::make_tuple(std::move(found), bytes_of(words));
}

bool load_expired(KeyedEngine& engine, const KeyBatch& batch, nb::handle words) {
    engine.keyed.require_current(batch.generation);
    Bytes bytes(words);
    size_t size = batch.slots.size() * engine.keyed.expired_words() * sizeof(int64_t);
    return bytes.view().size() == size && engine.keyed.load_expired(batch, data_of<int64_t>(bytes));
}

Anchors watch_batch(KeyedEngine& engine, const KeyBatch& batch, nb::handle times, nb::handle late, int64_t until,
                    bool spans) {
    engine.keyed.require_current(batch.generation);
    Bytes time_bytes(times);
    Optional<uint8_t> late_bytes(late);
    Anchors watched = engine.keyed.watch(batch, data_of<int64_t>(time_bytes), late_bytes.get(), until);
    if (spans) watched.spans = std::make_shared<Spans>(engine.keyed.spans(watched.items));
    return watched;
}

nb::object spans_of(const Spans* spans) {
    if (!spans) return nb::none();
    return nb::make_tuple(bytes_of(spans->order), bytes_of(spans->from), bytes_of(spans->to), bytes_of(spans->seqs),
                          bytes_of(spans->times));
}

Anchors boundaries_of(KeyedEngine& engine, int64_t from, int64_t to, const Anchors* watched) {
    if (watched) engine.keyed.require_current(watched->generation);
    return engine.keyed.boundaries(from, to, watched);
}

template <class Field>
nb::object fields_of(const Anchors& anchors, Field Anchor::* field) {
    std::vector<Field> fields;
    fields.reserve(anchors.items.size());
    for (const Anchor& anchor : anchors.items) fields.push_back(anchor.*field);
    return bytes_of(fields);
}

nb::list key_columns(const std::vector<const std::string*>& keys, const std::vector<uint32_t>& widths) {
    nb::list columns;
    for (const KeyParts& parts : split_keys(keys, widths))
        columns.append(nb::make_tuple(bytes_of(parts.there), bytes_of(parts.values), bytes_of(parts.offsets)));
    return columns;
}

// Which of the different keys each anchor has, and those keys' columns: (there, bytes, offsets) each. A width of 0 is
// text.
nb::object keys_of(KeyedEngine& engine, const Anchors& anchors, const std::vector<uint32_t>& widths) {
    engine.keyed.require_current(anchors.generation);
    std::vector<int64_t> places;
    std::vector<const std::string*> keys;
    for (uint32_t slot : engine.keyed.keys_of(anchors.items, places)) keys.push_back(&engine.keyed.key_of(slot));
    return nb::make_tuple(bytes_of(places), key_columns(keys, widths));
}

// Writes the core's results, and returns the rows in each window where Python has aggregates of its own.
nb::object answer_anchors(KeyedEngine& engine, const Anchors& anchors, const nb::list& rooms, bool spans) {
    engine.keyed.require_current(anchors.generation);
    Rooms all(rooms, anchors.items.size());
    Spans found;
    {
        nb::gil_scoped_release others;
        engine.keyed.answer(anchors.items, all.outs);
        if (spans) found = engine.keyed.spans(anchors.items);
    }
    return spans_of(spans ? &found : nullptr);
}

nb::object first_times(const Frame& frame, size_t window, nb::handle times) {
    Bytes bytes(times);
    std::vector<int64_t> first(bytes.view().size() / sizeof(int64_t));
    for (size_t i = 0; i < first.size(); ++i)
        first[i] = frame.first_time(data_of<int64_t>(bytes)[i], frame.windows.at(window));
    return bytes_of(first);
}

nb::object first_after(const Frame& frame, int64_t dropped) {
    int64_t anchor;
    return frame.first_after(dropped, anchor) ? nb::object(nb::int_(anchor)) : nb::object(nb::none());
}

// --- questions -----------------------------------------------------------------------------------

Anchors asked_of(KeyedEngine& engine, nb::handle schema, nb::handle array, nb::handle times) {
    Bytes bytes(times);
    size_t count = bytes.view().size() / sizeof(int64_t);
    if (array.is_none()) return engine.keyed.asked(nullptr, data_of<int64_t>(bytes), count);
    KeyColumns keys(schema.ptr(), array.ptr());
    return engine.keyed.asked(&keys, data_of<int64_t>(bytes), count);
}

// As `answer_anchors` does, for the rows of a range; `start` and `stop` are what results that depend on times see.
nb::object answer_range(KeyedEngine& engine, const Anchors& anchors, int64_t from, int64_t to, int64_t start,
                        int64_t stop, const nb::list& rooms, bool spans) {
    engine.keyed.require_current(anchors.generation);
    Rooms all(rooms, anchors.items.size());
    Spans found;
    {
        nb::gil_scoped_release others;
        engine.keyed.answer_range(anchors.items, from, to, {start, stop}, all.outs[0]);
        if (spans) found = engine.keyed.range_spans(anchors.items, from, to);
    }
    return spans_of(spans ? &found : nullptr);
}

nb::object marks_of(KeyedEngine& engine, const Anchors& anchors, const nb::list& rooms, nb::handle extra) {
    engine.keyed.require_current(anchors.generation);
    Rooms all(rooms, anchors.items.size());
    return bytes_of(engine.keyed.marks_of(anchors.items, all.outs, Optional<int64_t>(extra).get()));
}

nb::object changed_anchors(KeyedEngine& engine, const Anchors& anchors, const nb::list& rooms, nb::handle extra) {
    engine.keyed.require_current(anchors.generation);
    Rooms all(rooms, anchors.items.size());
    return bytes_of(engine.keyed.changed(anchors, all.outs, Optional<int64_t>(extra).get()));
}

// The places and times of all rows, and the columns of all keys.
nb::object held_in(KeyedEngine& engine, const std::vector<uint32_t>& widths) {
    std::vector<int64_t> seqs, times;
    std::vector<const std::string*> keys;
    engine.keyed.held(seqs, times, keys);
    return nb::make_tuple(bytes_of(seqs), bytes_of(times), key_columns(keys, widths));
}

std::string key_in(nb::handle schema, nb::handle array) {
    std::string key;
    if (!array.is_none()) KeyColumns(schema.ptr(), array.ptr()).append(key, 0);
    return key;
}

// Takes back the last row of the stream, if it is there: it has a key, a time, perhaps an id, and a place in the stream.
// Names of ids from a number on go too.
void take_back(KeyedEngine& engine, nb::handle schema, nb::handle array, int64_t time, nb::handle ids, int64_t seq,
               size_t names) {
    uint32_t slot = engine.keyed.find_slot(key_in(schema, array));
    Ids numbers(ids, engine.keyed.names());
    if (slot != Keyed::kNoSlot) engine.keyed.take_back(slot, {time, seq, numbers.get(), false, false, false, 0});
    engine.keyed.names().forget_from(names);
}

// The tree of the key that the first row of some key columns has.
nb::object key_nodes(KeyedEngine& engine, nb::handle schema, nb::handle array) {
    return python(engine.keyed.nodes(key_in(schema, array)));
}

}  // namespace

void bind_keyed(nb::module_& m) {
    m.def("buckets", buckets_of, "schema"_a, "array"_a, "count"_a, "into"_a,
          "Write which of so many buckets each row's key belongs to, the same in every process.");
    m.def("hashes", hashes_of, "schema"_a, "array"_a, "into"_a, "Write a hash of each row, the same in every process.");
    nb::class_<Calendar>(m, "Calendar")
        .def("__init__", make_calendar, "period"_a, "ticks_per_second"_a, "changes"_a, "offsets"_a)
        .def("start_of", &Calendar::start_of, "time"_a)
        .def("next_after", &Calendar::next_after, "time"_a);
    nb::class_<Frame>(m, "Frame")
        .def("dropped_at", &Frame::dropped_at, "anchor"_a, "late"_a)
        .def("first_after", first_after, "dropped"_a)
        .def("needed_until", &Frame::needed_until, "newest"_a)
        .def("first_times", first_times, "window"_a, "times"_a)
        .def_prop_ro("min_rows", [](const Frame& frame) { return frame.min_rows; });
    nb::class_<KeyBatch>(m, "KeyBatch").def("__len__", [](const KeyBatch& b) { return b.slots.size(); });
    nb::class_<Anchors>(m, "Anchors")
        .def("__len__", [](const Anchors& a) { return a.items.size(); })
        .def_prop_ro("watched", [](const Anchors& a) { return a.marks.size(); })
        .def("times", [](const Anchors& a) { return fields_of(a, &Anchor::time); })
        .def("seqs", [](const Anchors& a) { return fields_of(a, &Anchor::seq); })
        .def("spans", [](const Anchors& a) { return spans_of(a.spans.get()); });
    nb::class_<KeyedEngine>(m, "Keyed")
        .def("__init__", make_keyed, "monoid"_a, "kinds"_a, "instants"_a, "codec"_a.none(), "frame"_a)
        .def("batch", batch_of, "schema"_a.none(), "array"_a.none(), "rows"_a, "seq"_a)
        .def("apply", apply_batch, "batch"_a, "times"_a, "ids"_a.none(), "deletes"_a.none(), "late"_a.none(),
             "inputs"_a, "status"_a, "identities"_a.none() = nb::none())
        .def("join", join_panes, "batch"_a, "times"_a, "records"_a, "late"_a.none(), "status"_a)
        .def("panes", panes_of, "batch"_a)
        .def("roll", roll_batch, "batch"_a, "times"_a, "inputs"_a, "questions"_a.none(), "rooms"_a)
        .def("asked", asked_of, "schema"_a.none(), "array"_a.none(), "times"_a)
        .def("answer_range", answer_range, "anchors"_a, "first"_a, "last"_a, "start"_a, "stop"_a, "rooms"_a, "spans"_a)
        .def("arrived", arrived_in, "batch"_a, "times"_a, "status"_a, "ids"_a.none() = nb::none())
        .def(
            "between", [](KeyedEngine& e, int64_t from, int64_t to) { return e.keyed.between(from, to); }, "start"_a,
            "stop"_a)
        .def(
            "touched", [](KeyedEngine& e, int64_t from) { return e.keyed.touched(from); }, "start"_a)
        .def(
            "touch",
            [](KeyedEngine& e, const Anchors& anchors, nb::handle until) {
                e.keyed.require_current(anchors.generation);
                Bytes times(until);
                e.keyed.touch(anchors.items, data_of<int64_t>(times));
            },
            "anchors"_a, "until"_a)
        .def("seen_until", seen_until, "batch"_a, "times"_a)
        .def("gone", [](KeyedEngine& e) { return bytes_of(e.keyed.gone()); })
        .def("boundaries", boundaries_of, "start"_a, "stop"_a, "watched"_a.none())
        .def("watch", watch_batch, "batch"_a, "times"_a, "late"_a.none(), "until"_a, "spans"_a)
        .def("keys", keys_of, "anchors"_a, "widths"_a)
        .def("answer", answer_anchors, "anchors"_a, "rooms"_a, "spans"_a)
        .def("marks", marks_of, "anchors"_a, "rooms"_a, "extra"_a.none())
        .def("changed", changed_anchors, "anchors"_a, "rooms"_a, "extra"_a.none())
        .def(
            "expire", [](KeyedEngine& e, int64_t bound, int64_t horizon) { e.keyed.expire(bound, horizon); }, "bound"_a,
            "horizon"_a)
        .def("expired", expired_in)
        .def("load_expired", load_expired, "batch"_a, "words"_a)
        .def(
            "drop", [](KeyedEngine& e, int64_t bound) { e.keyed.drop(bound), e.keyed.expire(INT64_MIN, INT64_MIN); },
            "bound"_a)
        .def("dump",
             [](KeyedEngine& e) {
                 std::string bytes;
                 e.keyed.dump(bytes);
                 return python(python_bytes(bytes.size(), bytes.data()));
             })
        .def(
            "load",
            [](KeyedEngine& e, nb::handle data, const std::vector<uint32_t>& widths, int64_t next, bool ids) {
                return e.keyed.load(Bytes(data).view(), widths, next, ids);
            },
            "data"_a, "widths"_a, "next"_a, "ids"_a)
        .def("held", held_in, "widths"_a)
        .def(
            "pending",
            [](KeyedEngine& e, int64_t from) {
                int64_t time;
                return e.keyed.pending(from, time) ? nb::object(nb::int_(time)) : nb::object(nb::none());
            },
            "start"_a)
        .def(
            "nth_time",
            [](KeyedEngine& e, int64_t from, int64_t to, size_t count) { return e.keyed.nth_time(from, to, count); },
            "start"_a, "stop"_a, "count"_a)
        .def_prop_ro("newest",
                     [](KeyedEngine& e) {
                         int64_t time;
                         return e.keyed.newest(time) ? nb::object(nb::int_(time)) : nb::object(nb::none());
                     })
        .def("check", [](KeyedEngine& e) { e.keyed.check(); })
        .def("take_back", take_back, "schema"_a.none(), "array"_a.none(), "time"_a, "ids"_a.none(), "seq"_a, "names"_a)
        .def_prop_ro("frame", [](KeyedEngine& e) { return e.keyed.frame(); })
        .def_prop_ro("id_names", [](KeyedEngine& e) { return e.keyed.names().size(); })
        .def("nodes", key_nodes, "schema"_a.none(), "array"_a.none())
        .def_prop_ro("combines", [](KeyedEngine& e) { return e.keyed.combines(); })
        .def_prop_ro("repairs", [](KeyedEngine& e) { return e.keyed.repairs(); })
        .def_prop_ro("live_bytes", [](KeyedEngine& e) { return e.keyed.live_bytes(); })
        .def_prop_ro("progress", [](KeyedEngine& e) { return e.keyed.progress(); })
        .def_prop_ro("live_keys", [](KeyedEngine& e) { return e.keyed.live_keys(); })
        .def_prop_ro("live_rows", [](KeyedEngine& e) { return e.keyed.live_rows(); })
        .def_prop_ro("record_words", [](KeyedEngine& e) { return e.keyed.plan().words(); })
        .def_prop_ro("result_shapes", result_shapes);
}

}  // namespace sash
