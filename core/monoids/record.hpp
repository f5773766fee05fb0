// The monoid policy of native records: any number of aggregates over one tree.
//
// An entry is a row of input words, which is lifted when it is folded; only aggregates are records. Where several rows
// have one time their entry owns a record. Small records are stored in the nodes, large ones in separate blocks.
#pragma once

#include <cstdlib>
#include <new>

#include "monoids/bloom.hpp"
#include "monoids/monoids.hpp"
#include "monoids/plan.hpp"

namespace sash {

// The heap storage of an entry that does not fit two words: a longer row, or the record of several rows.
struct Box {
    uint64_t nulls;
    uint32_t words : 31, record : 1;
    uint32_t used;  // the words that a copy needs
    int64_t* data() { return reinterpret_cast<int64_t*>(this + 1); }

    static Box* make(uint32_t words, bool record) {
        void* memory = std::malloc(sizeof(Box) + words * sizeof(int64_t));
        if (!memory) throw std::bad_alloc();
        Box* box = new (memory) Box;
        box->nulls = 0;
        box->words = words & 0x7FFFFFFF;
        box->record = record;
        box->used = words;
        return box;
    }
    Box* copy() { return copy(used); }
    Box* copy(uint32_t room) {
        Box* twin = make(room, record);
        twin->nulls = nulls;
        twin->used = used;
        std::memcpy(twin->data(), data(), used * sizeof(int64_t));
        return twin;
    }
    // The same with more room.
    static void widen(Box*& box, uint32_t words) {
        if (box->words >= words) return;
        Box* wide = box->copy(words);
        std::free(std::exchange(box, wide));
    }
};

// An array of entries is an array of rows: fold reads them in place.
struct RecordEntry {
    static constexpr uint32_t kInline = 2;  // a pair, or a value and its time
    static constexpr uint64_t kBoxed = uint64_t{1} << 63;
    int64_t words[kInline];
    uint64_t tag = 0;  // 0: a short row without nulls; kBoxed: words[0] is a Box; otherwise nulls as bits

    RecordEntry() = default;
    RecordEntry(const RecordEntry& other) { take(other), own(); }
    RecordEntry(RecordEntry&& other) noexcept { take(other), other.tag = 0; }
    RecordEntry& operator=(RecordEntry&& other) noexcept {
        if (this == &other) return *this;
        if (tag & kBoxed) free_box();
        take(other);
        other.tag = 0;
        return *this;
    }
    RecordEntry& operator=(const RecordEntry& other) { return *this = RecordEntry(other); }
    ~RecordEntry() {
        if (tag & kBoxed) free_box();
    }

    Box* box() const { return reinterpret_cast<Box*>(words[0]); }
    void set(Box* box) {
        words[0] = reinterpret_cast<int64_t>(box);
        tag = kBoxed;
    }
    void replace(Box* box) {
        if (tag & kBoxed) free_box();
        set(box);
    }
    bool is_record() const { return (tag & kBoxed) && box()->record; }
    uint64_t nulls() const { return tag & kBoxed ? box()->nulls : tag; }
    int64_t* row() { return tag & kBoxed ? box()->data() : words; }
    const int64_t* row() const { return tag & kBoxed ? box()->data() : words; }

    SASH_RARE void free_box() { std::free(box()); }

   private:
    // Word by word: a wider load could not be served by the narrow stores that have just been made.
    void take(const RecordEntry& other) {
        for (uint32_t i = 0; i < kInline; ++i) {
            int64_t word = other.words[i];
            asm("" : "+r"(word));
            words[i] = word;
        }
        tag = other.tag;
    }
    void own() {
        if (tag & kBoxed) words[0] = reinterpret_cast<int64_t>(box()->copy());
    }
};
static_assert(sizeof(RecordEntry) == 24 && sizeof(Box) == 16);
inline void clear(RecordEntry& entry) {
    if (entry.tag & RecordEntry::kBoxed) entry.free_box();
    entry.tag = 0;
}

// A record of up to kWords words, stored in place.
struct InlineRecord {
    static constexpr bool inlined = true;
    static constexpr uint32_t kWords = 12;
    int64_t data[kWords];
    int64_t* words(uint32_t) { return data; }
    const int64_t* words() const { return data; }
    bool some() const { return true; }
    void use(uint32_t) {}
};

// A record of any size.
class BlockRecord {
   public:
    static constexpr bool inlined = false;
    static constexpr uint32_t kWords = 0;
    BlockRecord() = default;
    BlockRecord(const BlockRecord& other) {
        if (other.block_) assign(other);
    }
    BlockRecord(BlockRecord&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
    BlockRecord& operator=(const BlockRecord& other) {
        if (this == &other) return *this;
        if (other.block_)
            assign(other);
        else
            release();
        return *this;
    }
    BlockRecord& operator=(BlockRecord&& other) noexcept {
        std::swap(block_, other.block_);
        return *this;
    }
    ~BlockRecord() { release(); }

    int64_t* words(uint32_t size) {
        if (!block_)
            block_ = Box::make(size, true);
        else
            Box::widen(block_, size);
        return block_->data();
    }
    const int64_t* words() const { return block_->data(); }
    bool some() const { return block_ != nullptr; }
    void use(uint32_t used) { block_->used = used; }

   private:
    void assign(const BlockRecord& other) {
        uint32_t used = other.block_->used;
        if (block_) block_->used = 0;
        std::memcpy(words(used), other.block_->data(), used * sizeof(int64_t));
        block_->used = used;
    }
    void release() { std::free(std::exchange(block_, nullptr)); }
    Box* block_ = nullptr;
};

inline void clear(BlockRecord&) {}  // it owns no objects, and its memory is reused

template <class Record>
struct RecordOf : Counted {
    static constexpr bool is_inline = Record::inlined;
    using Input = RecordEntry;
    using Entry = RecordEntry;
    using Agg = Record;
    static constexpr const char* name = is_inline ? "record" : "wide_record";
    static constexpr Out out = Out::object;
    static constexpr bool is_record = true;
    static constexpr bool in_place = true;
    static constexpr bool takes_time = true;
    static constexpr bool folds = true;
    static constexpr bool validates = false;
    static constexpr uint32_t leaf_capacity = is_inline ? 64 : 32;
    static constexpr uint32_t fanout = is_inline ? 16 : 4;

    explicit RecordOf(const MonoidSpec& spec) : plan_(spec.plan) {}

    const Plan& plan() const { return *plan_; }
    bool joins() const { return plan_->commutes(); }
    bool timed() const { return plan_->timed(); }
    bool regroups() const { return plan_->regroups(); }
    Out shown_as() const { return plan_->plain() ? Out::record : out; }
    Ref result_kinds() const { return plan_->result_kinds(); }

    // --- rows in -------------------------------------------------------------------------------------

    Input input(PyObject* value) const {
        Entry entry = blank();
        set_nulls(entry, plan_->read(value, entry.row()));
        return entry;
    }
    Input input_at(const Column& column, size_t row) const {
        Entry entry = blank();
        if (uint64_t nulls = read_inputs(column, row, entry.row())) set_nulls(entry, nulls);
        return entry;
    }
    // Writes rows to entries that own nothing, up to one with nulls, and returns how many.
    size_t read_rows(const Column& column, size_t row, Entry* entries, size_t count) const {
        for (size_t j = 0; j < column.input_count; ++j)
            if (const uint8_t* nulls = column.inputs[j].nulls)
                count = static_cast<size_t>(std::find_if(nulls + row, nulls + row + count, is_set) - (nulls + row));
        if (plan_->width() > Entry::kInline) {
            for (size_t i = 0; i < count; ++i) entries[i] = input_at(column, row + i);
            return count;
        }
        for (uint32_t j = 0; j < plan_->width(); ++j) {
            const int64_t* words = column.inputs[j].words + row;
            for (size_t i = 0; i < count; ++i) entries[i].words[j] = words[i], entries[i].tag = 0;
        }
        for (size_t i = 0; plan_->width() == 0 && i < count; ++i) entries[i].tag = 0;
        return count;
    }
    // Clears entries, of which few own anything.
    static void clear_rows(Entry* entries, size_t count) {
        uint64_t tags = 0;
        for (size_t i = 0; i < count; ++i) tags |= entries[i].tag;
        for (size_t i = 0; tags && i < count; ++i) clear(entries[i]);
    }
    static Entry lift(Input input) { return input; }
    template <class Moment>
    Entry lift(Input input, const Moment& moment) const {
        if (plan_->timed()) date(input, moment);
        return input;
    }
    template <class Moment>
    void date(Entry& entry, const Moment& moment) const {
        date(entry, moment.word());
    }
    void date(Entry& entry, int64_t time) const { entry.row()[plan_->time_at()] = time; }

    // --- combining -----------------------------------------------------------------------------------

    bool merge(Entry& entry, const Entry& more) {
        see(entry), see(more);  // a record does not store how large its rows were
        if (!entry.is_record()) entry.replace(record_of(entry));
        Box* box = entry.box();
        Box::widen(box, plan_->room(static_cast<uint64_t>(box->data()[kRows]) + rows_of(more)));
        entry.set(box);
        ++combines;
        fold(box->data(), more);
        box->used = plan_->used(box->data());
        return true;
    }
    Agg of(const Entry& entry) const {
        Agg agg;
        int64_t* words = agg.words(plan_->room(rows_of(entry)));
        Plan::clear(words);
        fold(words, entry);
        settle(agg);
        return agg;
    }
    void append(Agg& agg, const Agg& other) {
        ++combines;
        plan_->join(words(agg, rows_of(other)), other.words(), 0, 1);
        settle(agg);
    }
    // agg = first (x) all the others, whatever it was.
    void join_into(Agg& agg, const Agg& first, const Agg* others, size_t count) {
        combines += count;
        plan_->join_into(words(agg), first.words(), others->words(), sizeof(Agg) / sizeof(int64_t), count);
    }
    // agg = widest (x) one (x) two, whatever it was, with room for all of them from the start.
    void join_to_widest(Agg& agg, const Agg& widest, const Agg& one, const Agg& two) {
        combines += 2;
        agg = widest;
        int64_t* at = words(agg, rows_of(one) + rows_of(two));
        for (const Agg* other : {&one, &two}) plan_->join(at, other->words(), 0, 1);
        settle(agg);
    }
    void prepend(const Agg& other, Agg& agg) {
        ++combines;
        plan_->prepend(other.words(), words(agg, rows_of(other)));
        settle(agg);
    }
    void append_entry(Agg& agg, const Entry& entry) {
        ++combines;
        fold(words(agg, rows_of(entry)), entry);
        settle(agg);
    }
    void prepend_entry(const Entry& entry, Agg& agg) {
        if (plan_->commutes()) return append_entry(agg, entry);
        prepend(of(entry), agg);
    }
    void append_entries(Agg& agg, const Entry* entries, size_t count) {
        combines += count;
        for (size_t i = 0; i < count;) {
            size_t from = i;
            while (i < count && entries[i].tag == 0) ++i;
            if (i > from)
                plan_->fold(words(agg, i - from), {entries[from].words, kStride}, i - from);
            else
                fold(words(agg, rows_of(entries[i])), entries[i]), ++i;
            settle(agg);
        }
    }
    // Fills the aggregates before the last one with those of their entries and all later ones, if that can be done at
    // once: where order does not matter, and no entry is anything but a short row.
    bool scan_back(const Entry* entries, Agg* aggs, size_t count) {
        if (!is_inline || !joins() || !plan_->saw_all(aggs[count].words())) return false;
        for (size_t i = 0; i < count; ++i)
            if (entries[i].tag) return false;
        combines += count;
        plan_->scan_back({entries->words, kStride},
                         {aggs->words(plan_->words()), sizeof(Agg) / sizeof(int64_t), count});
        return true;
    }
    // Whether many rounds can be run in one go, and whether they can between these records.
    bool runs(const RecordOutput& out) const { return plan_->runs() && joins() && !timed() && out.takes_columns(); }
    bool runs(const Agg& suffix, const Agg* middle, const Agg& total) const {
        return plan_->saw_all(suffix.words()) && plan_->saw_all(total.words()) &&
               (!middle || plan_->saw_all(middle->words()));
    }
    // Round i's result is that of suffixes[i], the middle if there is one, and the total after the rows up to i.
    void run(const Agg* suffixes, size_t count, const Agg* middle, Agg& total, const Column& values, size_t row,
             RecordOutput& out) {
        combines += (middle ? 3 : 2) * count;
        plan_->run({{suffixes->words(), sizeof(Agg) / sizeof(int64_t), count},
                    middle ? middle->words() : nullptr,
                    total.words(plan_->words())},
                   values, row, out);
    }
    void append_aggs(Agg& agg, const Agg* aggs, size_t count) {
        if constexpr (is_inline) {
            combines += count;
            if (count) plan_->join(words(agg), aggs->words(), sizeof(Agg) / sizeof(int64_t), count);
        } else {
            for (size_t i = 0; i < count; ++i) append(agg, aggs[i]);
        }
    }

    // --- results -------------------------------------------------------------------------------------

    Ref result(const Agg& agg) const { return plan_->result(agg.words(), {}); }
    Ref result(const Agg& agg, const Span& span) const { return plan_->result(agg.words(), span); }
    Ref empty() const { return empty(none(), none()); }
    Ref empty(const Ref& start, const Ref& stop) const { return plan_->empty(start, stop); }
    void store(Output& out, size_t row, const Agg& agg) const { store(out, row, agg, Span{}); }
    void store(Output& out, size_t row, const Agg& agg, const Span& span) const {
        if (out.objects)
            succeed(PyList_SetItem(out.objects, static_cast<Py_ssize_t>(row), result(agg, span).release()));
        else
            plan_->store(agg.words(), span, *out.records, row);
    }
    // Where the record for a row of results can be made in place, to be lowered later on; null where it can not.
    Agg* slot(Output& out, size_t row) const {
        if (!is_inline || out.objects || plan_->timed()) return nullptr;
        return reinterpret_cast<Agg*>(out.records->slot(*plan_, row, Record::kWords));
    }
    Ref seen(const Agg& agg) const { return result(agg); }
    Ref state(const Agg& agg) const {
        std::vector<int64_t> tidy = plan_->tidied(agg.words(), false);
        return Ref::checked(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(tidy.data()), record_bytes()));
    }
    Entry thaw(PyObject* state) const {
        if (!PyBytes_Check(state) || PyBytes_GET_SIZE(state) != record_bytes()) fail_value(state, "be a record");
        Entry entry;
        Box* box = Box::make(plan_->words(), true);
        std::memcpy(box->data(), PyBytes_AS_STRING(state), static_cast<size_t>(record_bytes()));
        entry.set(box);
        box->used = plan_->used(box->data());
        return entry;
    }

    // --- proof ---------------------------------------------------------------------------------------

    // Rounding differs with the order of combining; how much it may depends on the largest input.
    void see(const Entry& entry) {
        if (!entry.is_record()) largest_ = std::max(largest_, plan_->size_of(entry.row(), entry.nulls()));
    }
    bool same(const Agg& a, const Agg& b) const { return plan_->same(a.words(), b.words(), largest_); }

    // --- bytes ---------------------------------------------------------------------------------------

    void write(std::string& bytes, const Entry& entry) const {
        bytes.push_back(entry.is_record() ? 1 : 0);
        uint64_t nulls = entry.nulls();
        bytes.append(reinterpret_cast<const char*>(&nulls), sizeof nulls);
        std::vector<int64_t> words = entry.is_record()
                                         ? plan_->tidied(entry.row(), true)
                                         : std::vector<int64_t>(entry.row(), entry.row() + plan_->width());
        if (entry.is_record() && plan_->trims()) {
            uint32_t used = plan_->used(words.data());
            bytes.append(reinterpret_cast<const char*>(&used), sizeof used);
            words.resize(used);
        }
        bytes.append(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(int64_t));
    }
    bool read(const char*& at, const char* end, Entry& entry) const {
        char flag = *at++;
        if (flag != 0 && flag != 1) return false;
        bool record = flag == 1;
        uint64_t nulls;
        if (static_cast<size_t>(end - at) < sizeof nulls) return false;
        std::memcpy(&nulls, at, sizeof nulls);
        at += sizeof nulls;
        if (record) return nulls == 0 && read_record(at, end, entry);
        size_t size = plan_->width() * sizeof(int64_t);
        if (static_cast<size_t>(end - at) < size) return false;
        entry = blank();
        if (size) std::memcpy(entry.row(), at, size);
        at += size;
        if (!plan_->sound_nulls(nulls)) return false;
        if (nulls) set_nulls(entry, nulls);
        return true;
    }

   protected:
    static constexpr size_t kStride = sizeof(Entry) / sizeof(int64_t);

    int64_t* words(Agg& agg) const { return agg.words(plan_->words()); }
    // With room for more rows.
    int64_t* words(Agg& agg, uint64_t more) const {
        if (is_inline || !plan_->trims()) return words(agg);
        // A little more than that, or every other row would need a new block.
        constexpr uint64_t kStep = 16;
        uint64_t rows = agg.some() ? rows_of(agg) + more : more;
        return agg.words(plan_->room((rows + kStep - 1) / kStep * kStep));
    }
    static uint64_t rows_of(const Agg& agg) { return static_cast<uint64_t>(agg.words()[kRows]); }
    static uint64_t rows_of(const Entry& entry) {
        return entry.is_record() ? static_cast<uint64_t>(entry.row()[kRows]) : 1;
    }
    void settle(Agg& agg) const {
        if (!is_inline && plan_->trims()) agg.use(plan_->used(agg.words()));
    }
    // A record of an entry that is a row.
    Box* record_of(const Entry& entry) const {
        Box* box = Box::make(plan_->room(1), true);
        Plan::clear(box->data());
        fold(box->data(), entry);
        box->used = plan_->used(box->data());
        return box;
    }
    Py_ssize_t record_bytes() const { return static_cast<Py_ssize_t>(plan_->words() * sizeof(int64_t)); }

    // Of a record that may be smaller than its room, the words that are in use come after their number.
    bool read_record(const char*& at, const char* end, Entry& entry) const {
        uint32_t used = plan_->words();
        if (plan_->trims()) {
            if (static_cast<size_t>(end - at) < sizeof used) return false;
            std::memcpy(&used, at, sizeof used);
            at += sizeof used;
            if (used < kHeader || used > plan_->words()) return false;
        }
        if (static_cast<size_t>(end - at) < used * sizeof(int64_t)) return false;
        Box* box = Box::make(plan_->words(), true);
        entry.set(box);
        std::fill(box->data(), box->data() + plan_->words(), 0);
        std::memcpy(box->data(), at, used * sizeof(int64_t));
        at += used * sizeof(int64_t);
        if (!plan_->sound(box->data()) || plan_->used(box->data()) != used) return false;
        box->used = used;
        return true;
    }

    static bool is_set(uint8_t flag) { return flag != 0; }
    Entry blank() const {
        Entry entry;
        if (plan_->width() > Entry::kInline) entry.set(Box::make(plan_->width(), false));
        return entry;
    }
    static void set_nulls(Entry& entry, uint64_t nulls) {
        if (entry.tag & Entry::kBoxed)
            entry.box()->nulls = nulls;
        else
            entry.tag = nulls;
    }
    void fold(int64_t* record, const Entry& entry) const {
        if (entry.tag == 0)
            plan_->fold(record, {entry.words, kStride}, 1);
        else if (entry.is_record())
            plan_->join(record, entry.row(), 0, 1);
        else if (entry.nulls())
            plan_->fold_nulls(record, entry.row(), entry.nulls());
        else
            plan_->fold(record, {entry.row(), plan_->width()}, 1);
    }

    std::shared_ptr<const Plan> plan_;
    double largest_ = 0;
};

using SmallRecord = RecordOf<InlineRecord>;
using WideRecord = RecordOf<BlockRecord>;

}  // namespace sash
