#include "monoids/plan.hpp"

#include <algorithm>
#include <cmath>

#include "base/hash.hpp"
#include "monoids/monoids.hpp"

namespace sash {

namespace {

std::vector<std::string> parsed_kinds(const std::string& kinds) {
    std::vector<std::string> found;
    std::string kind;
    for (char c : kinds) {
        if (c == '(') continue;
        if (c == ',' || c == ')') {
            if (!kind.empty()) found.push_back(kind);
            kind.clear();
        } else {
            kind += c;
        }
    }
    return found;
}

char letter_of(const std::string& kind) {
    if (kind == "int64") return 'i';
    if (kind == "float64") return 'f';
    if (kind == "hash") return 'h';
    if (kind == "truth") return 't';
    return 'a';
}

Clock clock_of(const TimeFormat& format) {
    if (format.kind == TimeKind::real) return {true, 1};
    if (!format.codec) return {};
    Ref ticks = attribute(format.codec.get(), "ticks_per_second");
    double per_second = PyFloat_AsDouble(ticks.get());
    if (PyErr_Occurred()) throw PythonError{};
    return {false, per_second};
}

size_t words_of(const Outputs& outputs) {
    if (outputs.shape == Outputs::Shape::list) return 1 + outputs.most;
    if (outputs.shape == Outputs::Shape::bytes) return outputs.most;
    size_t words = outputs.kinds.size();
    for (char kind : outputs.kinds) words += kind == 'I';
    return words;
}

Ref python_word(char kind, const int64_t* word) {
    if (kind == 'f') return python_float(real(*word));
    if (kind == 'b') return Ref::checked(PyBool_FromLong(*word != 0));
    if (kind != 'I') return python_int(*word);
    __int128 wide;
    std::memcpy(&wide, word, sizeof wide);
    return python_int(wide);
}

template <class Do>
void each_item(PyObject* sequence, Do&& take) {
    Ref fast = Ref::checked(PySequence_Fast(sequence, "the parts of a layout must be sequences"));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) take(PySequence_Fast_GET_ITEM(fast.get(), i));
}

std::string text_of(PyObject* text) {
    const char* bytes = PyUnicode_AsUTF8(text);
    if (!bytes) throw PythonError{};
    return bytes;
}

bool is_true(PyObject* object, const char* name) {
    int truth = PyObject_IsTrue(attribute(object, name).get());
    succeed(truth);
    return truth;
}

std::string letters_of(PyObject* kinds) {
    std::string letters;
    each_item(kinds, [&](PyObject* kind) { letters += letter_of(text_of(kind)); });
    return letters;
}

template <class Function>
void set_address(Function& function, PyObject* addresses, Py_ssize_t index) {
    Ref item = Ref::checked(PySequence_GetItem(addresses, index));
    function = reinterpret_cast<Function>(PyLong_AsVoidPtr(item.get()));
    if (PyErr_Occurred()) throw PythonError{};
}

std::shared_ptr<const Compiled> compiled_of(PyObject* program) {
    auto compiled = std::make_shared<Compiled>();
    Ref addresses = callbacks::addresses(program);
    set_address(compiled->lift, addresses.get(), 0);
    set_address(compiled->fold, addresses.get(), 1);
    set_address(compiled->join, addresses.get(), 2);
    set_address(compiled->lower, addresses.get(), 3);
    compiled->state_words = static_cast<uint32_t>(letters_of(attribute(program, "state_kinds").get()).size());
    compiled->output_kinds = letters_of(attribute(program, "output_kinds").get());
    return compiled;
}

}  // namespace

// --- construction ----------------------------------------------------------------------------------

// From a sash.monoid.Layout, by the names of its fields.
Plan::Plan(PyObject* monoid, const std::string& kinds, const TimeFormat& format) : monoid_(monoid) {
    Ref layout = callbacks::layout(monoid);
    Ref reads = attribute(layout.get(), "reads");
    std::vector<std::string> names = parsed_kinds(kinds);
    if (PySequence_Size(reads.get()) != static_cast<Py_ssize_t>(names.size()))
        fail(ErrorKind::argument, "kinds must match the inputs of the monoid, got " + kinds + ".", "kinds");
    if (names.size() > 64)
        fail(ErrorKind::argument, "monoid must read at most 64 inputs, got " + std::to_string(names.size()) + ".",
             "monoid");
    each_item(reads.get(),
              [&](PyObject* read) { inputs_.push_back({attribute(read, "where"), letter_of(names[inputs_.size()])}); });
    named_ = is_true(layout.get(), "named");
    nullable_ = is_true(layout.get(), "nullable");
    structured_ = is_true(layout.get(), "structured");
    arity_ = PyLong_AsSize_t(attribute(layout.get(), "arity").get());
    width_ = static_cast<uint32_t>(inputs_.size());
    each_item(attribute(layout.get(), "parts").get(), [&](PyObject* part) { add_part(part, format); });
    if (timed_) {
        for (std::vector<Op>* ops : {&ops_, &active_})
            for (Op& op : *ops) op.inputs[2] = width_;
        ++width_;
    }
    place_states();
}

// States that may be smaller than their room come last: of the last one only what is in use is copied.
void Plan::place_states() {
    uint32_t at = kHeader;
    for (bool last : {false, true})
        for (size_t i = 0; i < ops_.size(); ++i) {
            if ((ops_[i].table->used != nullptr) != last) continue;
            ops_[i].offset = at;
            at += ops_[i].words;
            if (last) trimmed_ = &ops_[i];
        }
    for (Op& op : active_)
        for (const Op& placed : ops_)
            if (placed.bit == op.bit) op.offset = placed.offset;
}

// From a sash.monoid.RecordPart.
Op Plan::op_of(PyObject* part, const std::string& name, const TimeFormat& format) const {
    Op op;
    std::string kinds;
    each_item(attribute(part, "reads").get(), [&](PyObject* position) {
        uint32_t at = static_cast<uint32_t>(PyLong_AsLong(position));
        op.reads.push_back(at);
        op.needs |= uint64_t{1} << at;
        kinds += inputs_[at].kind == 't' ? 'i' : inputs_[at].kind;
    });
    for (size_t i = 0; i < op.reads.size() && i < 2; ++i) op.inputs[i] = op.reads[i];
    each_item(attribute(part, "parameters").get(),
              [&](PyObject* number) { op.parameters.push_back(PyFloat_AsDouble(number)); });
    if (PyErr_Occurred()) throw PythonError{};
    op.table = find_op(name, kinds);
    if (!op.table)
        fail(ErrorKind::argument, "monoid must be one that the core has, got " + name + " of kinds " + kinds + ".",
             "monoid");
    Ref program = attribute(part, "program");
    if (!program.is_none()) op.compiled = compiled_of(program.get());
    if (op.reads.size() > kMostRead)
        fail(ErrorKind::argument,
             "monoid must read at most " + std::to_string(kMostRead) + " numbers to be compiled, got " +
                 std::to_string(op.reads.size()) + ".",
             "monoid");
    op.fold = op.table->fold;
    op.join = op.table->join;
    op.step = op.table->step;
    if (op.table->timed) op.clock = clock_of(format);
    op.counts = name == "count" || name == "count_if";
    op.refuses_negative = name == "geomean";
    op.table->prepare(op);
    op.words = op.table->words(op);
    return op;
}

void Plan::add_part(PyObject* part, const TimeFormat& format) {
    std::string name = text_of(attribute(part, "op").get());
    Op op = op_of(part, name, format);
    counts_rows_ = counts_rows_ || (op.counts && op.reads.empty());
    op.offset = words_;
    op.bit = uint64_t{1} << ops_.size();
    words_ += op.words;
    all_ |= op.bit;
    timed_ = timed_ || op.table->timed;
    regroups_ = regroups_ && name != "affine" && !op.compiled;  // their rounding errors have no known bound
    commutes_ = commutes_ && (op.compiled ? is_true(part, "commutative") : op.table->commutes);

    Face face{attribute(part, "name"), attribute(part, "finish"), false, {}, 0};
    face.fields = PySequence_Size(attribute(part, "fields").get()) > 0;
    face.outputs = op.table->outputs(op);
    face.words = words_of(face.outputs);
    most_words_ = std::max(most_words_, face.words);
    plain_ = plain_ && face.outputs.shape == Outputs::Shape::words;
    op.outputs = face.words;
    result_words_ += face.words;
    add_real_results(face.outputs);
    faces_.push_back(std::move(face));
    runs_ = runs_ && (!op.words || op.table->rounds);
    if (op.words) active_.push_back(op);
    ops_.push_back(std::move(op));
}

// Which words of a result are floats: of a list its length comes first, and a wide integer has two words.
void Plan::add_real_results(const Outputs& outputs) {
    size_t words = words_of(outputs), first = real_results_.size();
    real_results_.resize(first + words);
    if (outputs.shape == Outputs::Shape::list)
        for (size_t i = 1; i < words; ++i) real_results_[first + i] = outputs.kinds[0] == 'f';
    if (outputs.shape == Outputs::Shape::words)
        for (char kind : outputs.kinds) {
            real_results_[first] = kind == 'f';
            first += kind == 'I' ? 2 : 1;
        }
}

// --- records ---------------------------------------------------------------------------------------

void Plan::fold_nulls(int64_t* record, const int64_t* row, uint64_t nulls) const {
    ++record[kRows];
    for (const Op& op : ops_) {
        if (op.needs & nulls) continue;
        if (static_cast<uint64_t>(record[kSeen]) & op.bit)
            op.table->fold(op, record + op.offset, {row, width_}, 1);
        else
            op.table->set(op, record + op.offset, {row, width_});
        record[kSeen] = static_cast<int64_t>(static_cast<uint64_t>(record[kSeen]) | op.bit);
    }
}

// An op that has seen no value yet takes the other one's state unchanged.
void Plan::join_some(int64_t* record, const int64_t* others, size_t stride, size_t count) const {
    for (; count > 0; --count, others += stride) {
        uint64_t mine = static_cast<uint64_t>(record[kSeen]), theirs = static_cast<uint64_t>(others[kSeen]);
        for (const Op& op : ops_) {
            if (!(theirs & op.bit)) continue;
            if (mine & op.bit)
                op.table->join(op, record + op.offset, others + op.offset, 0, 1);
            else
                copy_state(op, others + op.offset, record + op.offset);
        }
        record[kSeen] = static_cast<int64_t>(mine | theirs);
        record[kRows] += others[kRows];
    }
}

void Plan::prepend(const int64_t* other, int64_t* record) const {
    uint64_t mine = static_cast<uint64_t>(record[kSeen]), theirs = static_cast<uint64_t>(other[kSeen]);
    for (const Op& op : ops_) {
        if (!(theirs & op.bit)) continue;
        if (mine & op.bit)
            op.table->prepend(op, record + op.offset, other + op.offset);
        else
            copy_state(op, other + op.offset, record + op.offset);
    }
    record[kSeen] = static_cast<int64_t>(mine | theirs);
    record[kRows] += other[kRows];
}

bool Plan::same(const int64_t* a, const int64_t* b, double largest) const {
    if (a[kSeen] != b[kSeen] || a[kRows] != b[kRows]) return false;
    for (const Op& op : ops_) {
        if (!(static_cast<uint64_t>(a[kSeen]) & op.bit)) continue;
        // at least 1, or the lower powers would have no tolerance
        double tolerance = 1e-9 * static_cast<double>(a[kRows]) * std::pow(std::max(largest, 1.0), op.table->degree);
        if (!op.table->same(op, a + op.offset, b + op.offset, tolerance)) return false;
    }
    return true;
}

bool Plan::sound(const int64_t* record) const {
    uint64_t seen = static_cast<uint64_t>(record[kSeen]);
    if ((seen & ~all_) || record[kRows] < 1 || record[kRows] > kMostRows) return false;
    for (const Op& op : ops_)
        if ((seen & op.bit) && !op.table->sound(op, record + op.offset)) return false;
    return true;
}

bool Plan::sound_nulls(uint64_t nulls) const {
    uint64_t inputs = inputs_.size() < 64 ? (uint64_t{1} << inputs_.size()) - 1 : ~uint64_t{0};
    return !(nulls & ~(nullable_ ? inputs : 0));
}

std::vector<int64_t> Plan::tidied(const int64_t* record, bool rows) const {
    std::vector<int64_t> tidy(words_);
    copy(record, tidy.data());
    if (!rows && !counts_rows_) tidy[kRows] = 1;
    for (const Op& op : ops_) {
        int64_t* state = tidy.data() + op.offset;
        if (static_cast<uint64_t>(record[kSeen]) & op.bit)
            op.table->tidy(op, state);
        else
            std::fill(state, state + op.words, 0);
    }
    return tidy;
}

// --- rows ------------------------------------------------------------------------------------------

uint64_t stable_hash(PyObject* value) {
    if (PyLong_CheckExact(value)) {
        int overflow = 0;
        int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (!overflow) return mixed(static_cast<uint64_t>(number));
    }
    if (PyUnicode_CheckExact(value)) {
        Py_ssize_t size = 0;
        const char* text = PyUnicode_AsUTF8AndSize(value, &size);
        if (text) return hash64(text, static_cast<size_t>(size), 's');
        PyErr_Clear();
    }
    Ref hash = callbacks::stable_hash(value);
    return PyLong_AsUnsignedLongLongMask(hash.get());
}

int64_t Plan::word_of_input(const Input& input, PyObject* value) const {
    switch (input.kind) {
        case 'i': return integer_value(value);
        case 'f': return bits_of(real_value(value));
        case 'h': return static_cast<int64_t>(stable_hash(value));
        case 't': {
            int truth = PyObject_IsTrue(value);
            succeed(truth);
            return truth;
        }
        default: return 0;
    }
}

void Plan::require_shape(PyObject* value) const {
    if (named_) {
        if (!PyMapping_Check(value)) fail_value(value, "be a dict of columns");
    } else if (arity_ > 1) {
        bool fits =
            (PyTuple_Check(value) || PyList_Check(value)) && PySequence_Size(value) == static_cast<Py_ssize_t>(arity_);
        if (!fits) fail_value(value, "be a tuple of " + std::to_string(arity_) + " values");
    }
}

Ref Plan::item_of(PyObject* value, size_t i) const {
    if (!named_ && arity_ == 1) return Ref::borrow(value);
    Ref item = Ref::steal(PyObject_GetItem(value, inputs_[i].where.get()));
    if (item) return item;
    if (!PyErr_ExceptionMatches(PyExc_LookupError) && !PyErr_ExceptionMatches(PyExc_TypeError)) throw PythonError{};
    PyErr_Clear();
    fail_value(value, "have a column " + shown(inputs_[i].where.get()));
}

uint64_t Plan::read(PyObject* value, int64_t* row) const {
    uint64_t nulls = 0;
    require_shape(value);
    for (size_t i = 0; i < inputs_.size(); ++i) {
        Ref item = item_of(value, i);
        row[i] = 0;
        if (!is_null(item.get()))
            row[i] = word_of_input(inputs_[i], item.get());
        else if (nullable_)
            nulls |= uint64_t{1} << i;
        else
            fail(ErrorKind::kind, "value must not be None.", "value");
    }
    for (const Op& op : ops_)
        if (op.refuses_negative && !(op.needs & nulls) && real(row[op.inputs[0]]) < 0)
            fail_value(value, "not be negative for a geometric mean", ErrorKind::argument);
    return nulls;
}

double Plan::size_of(const int64_t* row, uint64_t nulls) const {
    double largest = 0;
    for (size_t i = 0; i < inputs_.size(); ++i)
        if (inputs_[i].kind == 'f' && !(nulls >> i & 1)) {
            double size = std::fabs(real(row[i]));
            if (size > largest && size - size == 0) largest = size;
        }
    return largest;
}

// --- results ---------------------------------------------------------------------------------------

bool Plan::lower(const Op& op, const int64_t* record, const Span& span, int64_t* out) const {
    if (static_cast<uint64_t>(record[kSeen]) & op.bit) return op.table->lower(op, record, span, out);
    if (op.counts) out[0] = 0;
    return op.counts;
}

void RecordOutput::start(const Plan& plan, size_t row, uint32_t size) {
    flush();
    plan_ = &plan;
    first_ = row;
    size_ = size;
    records_.resize(kMost * size);
}

void RecordOutput::flush() {
    if (count_ && !places) store(*this, first_);
    if (count_ && places) scatter();
    count_ = 0;
}

void RecordOutput::store(RecordOutput& out, size_t row) const {
    plan_->store({records_.data(), size_, count_}, out, row);
    if (!min_rows) return;
    for (size_t k = 0; k < count_; ++k)
        if (records_[k * size_ + kRows] < min_rows) out.clear_row(*plan_, row + k);
}

void RecordOutput::clear_row(const Plan& plan, size_t at) {
    for (size_t j = 0; j < plan.result_words(); ++j) words[j * rows + at] = 0;
    for (size_t i = 0; i < plan.parts(); ++i) there[i * rows + at] = 0;
}

// Lowered side by side first, and then put where they belong.
void RecordOutput::scatter() {
    RecordOutput near;
    scratch_.resize(kMost * plan_->result_words());
    scratch_there_.resize(kMost * plan_->parts());
    near.words = scratch_.data();
    near.there = scratch_there_.data();
    near.rows = count_;
    store(near, 0);
    for (size_t j = 0; j < plan_->result_words(); ++j)
        for (size_t k = 0; k < count_; ++k) words[j * rows + places[first_ + k]] = near.words[j * count_ + k];
    for (size_t i = 0; i < plan_->parts(); ++i)
        for (size_t k = 0; k < count_; ++k) there[i * rows + places[first_ + k]] = near.there[i * count_ + k];
}

// Words that nobody sees are 0 here: those of a null, and those behind the end of a list.
void RecordOutput::row(const Plan& plan, size_t at, std::vector<int64_t>& into) const {
    size_t parts = into.size(), j = 0;
    into.resize(parts + plan.parts());
    for (size_t i = 0; i < plan.parts(); ++i) {
        const int64_t* word = words + j * rows + at;
        size_t size = plan.ops()[i].outputs;
        bool shown = there[i * rows + at] && !plan.overflows(i, word, rows);
        size_t used = !shown ? 0 : plan.is_list(i) ? static_cast<size_t>(*word) + 1 : size;
        into[parts + i] = shown;
        for (size_t k = 0; k < size; ++k, ++j) into.push_back(k < used ? plan.shown_word(j, word[k * rows]) : 0);
    }
}

// An integer of two words whose value one word cannot hold is shown as null.
bool Plan::overflows(size_t part, const int64_t* word, size_t stride) const {
    const Outputs& outputs = faces_[part].outputs;
    if (outputs.shape != Outputs::Shape::words) return false;
    for (char kind : outputs.kinds) {
        if (kind == 'I' && word[stride] != word[0] >> 63) return true;
        word += (kind == 'I' ? 2 : 1) * stride;
    }
    return false;
}

// All NaNs look the same, and -0.0 looks like 0.0.
int64_t Plan::shown_word(size_t j, int64_t word) const {
    if (!real_results_[j]) return word;
    double real;
    std::memcpy(&real, &word, sizeof real);
    if (real == 0) return 0;
    return real == real ? word : INT64_MAX;
}

namespace {

constexpr size_t kFew = 16;  // words of a result; a small op has fewer

}  // namespace

void Plan::store(const Records& records, RecordOutput& out, size_t row) const {
    int64_t* few[kFew];
    std::vector<int64_t*> many(most_words_ > kFew ? most_words_ : 0);
    int64_t** columns = many.empty() ? few : many.data();
    size_t at = 0;
    for (size_t i = 0; i < ops_.size(); ++i) {
        for (size_t j = 0; j < ops_[i].outputs; ++j) columns[j] = out.words + (at++) * out.rows + row;
        uint8_t* there = out.there + i * out.rows + row;
        if (ops_[i].words) {
            ops_[i].table->lower_many(ops_[i], records, columns, there);
            continue;
        }
        for (size_t k = 0; k < records.count; ++k) {
            columns[0][k] = records.words[k * records.stride + kRows];
            there[k] = 1;
        }
    }
}

void Plan::run(const RecordRounds& rounds, const Column& values, size_t row, RecordOutput& out) const {
    const Records& suffixes = rounds.suffixes;
    size_t at = 0;
    for (size_t i = 0; i < ops_.size(); ++i) {
        const Op& op = ops_[i];
        int64_t* columns[kFew];
        for (size_t j = 0; j < op.outputs; ++j) columns[j] = out.words + (at++) * out.rows + row;
        uint8_t* there = out.there + i * out.rows + row;
        if (op.words) {
            const int64_t *x = values.inputs[op.inputs[0]].words + row, *y = values.inputs[op.inputs[1]].words + row;
            op.table->rounds(op, x, y, rounds, columns, there);
            continue;
        }
        int64_t other = rounds.total[kRows] + 1 + (rounds.middle ? rounds.middle[kRows] : 0);
        for (size_t k = 0; k < suffixes.count; ++k) {
            columns[0][k] = suffixes.words[k * suffixes.stride + kRows] + other + static_cast<int64_t>(k);
            there[k] = 1;
        }
    }
    rounds.total[kRows] += static_cast<int64_t>(suffixes.count);
}

// For results that depend on the time, one by one.
void Plan::store(const int64_t* record, const Span& span, RecordOutput& out, size_t row) const {
    std::vector<int64_t> words(most_words_);
    size_t at = 0;
    for (size_t i = 0; i < ops_.size(); ++i) {
        std::fill(words.begin(), words.end(), 0);
        out.there[i * out.rows + row] = lower(ops_[i], record, span, words.data());
        for (size_t j = 0; j < ops_[i].outputs; ++j) out.words[(at++) * out.rows + row] = words[j];
    }
}

Ref Plan::value_of(const Face& face, const int64_t* out) const {
    const Outputs& outputs = face.outputs;
    Ref value;
    if (outputs.shape == Outputs::Shape::bytes) {
        value = Ref::checked(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(out),
                                                       static_cast<Py_ssize_t>(outputs.most * sizeof(int64_t))));
    } else if (outputs.shape == Outputs::Shape::list) {
        value = Ref::checked(PyList_New(static_cast<Py_ssize_t>(out[0])));
        for (int64_t i = 0; i < out[0]; ++i)
            PyList_SET_ITEM(value.get(), static_cast<Py_ssize_t>(i),
                            python_word(outputs.kinds[0], out + 1 + i).release());
    } else if (!face.fields && outputs.kinds.size() == 1) {
        value = python_word(outputs.kinds[0], out);
    } else {
        value = Ref::checked(PyTuple_New(static_cast<Py_ssize_t>(outputs.kinds.size())));
        for (size_t i = 0; i < outputs.kinds.size(); ++i) {
            PyTuple_SET_ITEM(value.get(), static_cast<Py_ssize_t>(i), python_word(outputs.kinds[i], out).release());
            out += 1 + (outputs.kinds[i] == 'I');
        }
    }
    return face.finish.is_none() ? value : call(face.finish.get(), value.get());
}

Ref Plan::result(const int64_t* record, const Span& span) const {
    int64_t few[16];
    std::vector<int64_t> many;
    if (most_words_ > 16) many.resize(most_words_);
    int64_t* out = most_words_ > 16 ? many.data() : few;
    Ref all = structured_ ? Ref::checked(PyDict_New()) : Ref();
    for (size_t i = 0; i < ops_.size(); ++i) {
        Ref value = lower(ops_[i], record, span, out) ? value_of(faces_[i], out) : none();
        if (!structured_) return value;
        succeed(PyDict_SetItem(all.get(), faces_[i].name.get(), value.get()));
    }
    return all;
}

Ref Plan::result_kinds() const {
    Ref kinds = python_list();
    for (const Face& face : faces_) append(kinds, Ref::checked(PyUnicode_FromString(face.outputs.kinds.c_str())));
    return kinds;
}

Ref Plan::empty(const Ref& start, const Ref& stop) const { return callbacks::empty(monoid_, start.get(), stop.get()); }

}  // namespace sash
