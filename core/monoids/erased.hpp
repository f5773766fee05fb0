// One monoid that stands for all native ones, chosen at run time.
//
// Each template of an engine adds seconds to the build. `fiba` is compiled for every native monoid with times of one
// word; the structures that it is compared with (paper, classic, two_stacks, daba, reactive) only for the monoids of
// the measurements. All other combinations use this monoid and the times of base/any_time.hpp: the same values, errors
// and bytes, with a virtual call for each combine.
#pragma once

#include <memory>

#include "engine/packed.hpp"
#include "monoids/record.hpp"

namespace sash {

// --- values --------------------------------------------------------------------------------------

// An entry or an aggregate of any native monoid, or nothing.
class AnyValue {
   public:
    AnyValue() = default;
    template <class T, class = std::enable_if_t<!std::is_same_v<T, AnyValue>>>
    explicit AnyValue(T value) : type_(&kType<T>) {
        if constexpr (is_inside<T>)
            new (inside_) T(std::move(value));
        else
            outside_ = new T(std::move(value));
    }
    AnyValue(const AnyValue& other) {
        if (other.type_) other.type_->copy(other, *this);
        type_ = other.type_;
    }
    AnyValue(AnyValue&& other) noexcept { take(other); }
    AnyValue& operator=(AnyValue other) noexcept {
        drop();
        take(other);
        return *this;
    }
    ~AnyValue() { drop(); }

    template <class T>
    T& as() {
        if constexpr (is_inside<T>)
            return *std::launder(reinterpret_cast<T*>(inside_));
        else
            return *static_cast<T*>(outside_);
    }
    template <class T>
    const T& as() const {
        return const_cast<AnyValue*>(this)->as<T>();
    }

   private:
    struct Type {
        void (*copy)(const AnyValue& from, AnyValue& to);
        void (*move)(AnyValue& from, AnyValue& to);  // what is left of `from` need not be destroyed
        void (*destroy)(AnyValue& value);
    };
    static constexpr size_t kInside = 32;  // every entry, and the aggregates that are numbers
    template <class T>
    static constexpr bool is_inside = sizeof(T) <= kInside && std::is_nothrow_move_constructible_v<T>;

    template <class T>
    static void copy(const AnyValue& from, AnyValue& to) {
        if constexpr (is_inside<T>)
            new (to.inside_) T(from.as<T>());
        else
            to.outside_ = new T(from.as<T>());
    }
    template <class T>
    static void move(AnyValue& from, AnyValue& to) {
        if constexpr (is_inside<T>) {
            new (to.inside_) T(std::move(from.as<T>()));
            from.as<T>().~T();
        } else {
            to.outside_ = from.outside_;
        }
    }
    template <class T>
    static void destroy(AnyValue& value) {
        if constexpr (is_inside<T>)
            value.as<T>().~T();
        else
            delete static_cast<T*>(value.outside_);
    }
    template <class T>
    static constexpr Type kType = {copy<T>, move<T>, destroy<T>};

    void take(AnyValue& other) noexcept {
        if (other.type_) other.type_->move(other, *this);
        type_ = std::exchange(other.type_, nullptr);
    }
    void drop() noexcept {
        if (type_) std::exchange(type_, nullptr)->destroy(*this);
    }

    const Type* type_ = nullptr;
    union {
        alignas(16) char inside_[kInside];
        void* outside_;
    };
};

// --- monoid --------------------------------------------------------------------------------------

// The functions of the monoid behind an AnyMonoid (monoids/erased.cpp).
class AnyOps {
   public:
    virtual ~AnyOps() = default;
    virtual std::unique_ptr<AnyOps> clone() const = 0;
    virtual const char* name() const = 0;
    virtual bool regroups() const = 0;
    virtual bool timed() const = 0;
    virtual bool joins() const = 0;
    virtual uint32_t leaf_capacity() const = 0;
    virtual uint32_t fanout() const = 0;
    virtual Out shown_as() const = 0;
    virtual Ref result_kinds() const = 0;

    virtual AnyValue input(PyObject* value) const = 0;
    virtual AnyValue input_at(const Column& column, size_t row) const = 0;
    virtual void date(AnyValue& entry, int64_t time) const = 0;
    virtual bool merge(AnyValue& entry, const AnyValue& more) = 0;
    virtual AnyValue of(const AnyValue& entry) const = 0;
    virtual void append(AnyValue& agg, const AnyValue& other) = 0;
    virtual void prepend(const AnyValue& other, AnyValue& agg) = 0;
    virtual void append_entry(AnyValue& agg, const AnyValue& entry) = 0;
    virtual void prepend_entry(const AnyValue& entry, AnyValue& agg) = 0;

    virtual Ref result(const AnyValue& agg, const Span& span) const = 0;
    virtual Ref empty(const Ref& start, const Ref& stop) const = 0;
    virtual void store(Output& out, size_t row, const AnyValue& agg, const Span& span) const = 0;
    virtual Ref state(const AnyValue& agg) const = 0;
    virtual Ref seen(const AnyValue& agg) const = 0;
    virtual AnyValue thaw(PyObject* state) const = 0;
    virtual void see(const AnyValue& entry) = 0;
    virtual bool same(const AnyValue& a, const AnyValue& b) const = 0;

    virtual bool valid(const AnyValue& entry) const = 0;
    virtual void write(std::string& bytes, const AnyValue& entry) const = 0;
    virtual bool read(const char*& at, const char* end, AnyValue& entry) const = 0;
};

// Null where no native monoid has this name.
std::unique_ptr<AnyOps> any_ops(const std::string& name, const MonoidSpec& spec);

class AnyMonoid : public Counted {
   public:
    using Input = AnyValue;  // lifted, but not yet dated
    using Entry = AnyValue;
    using Agg = AnyValue;
    static constexpr bool validates = true;
    static constexpr bool takes_time = true;
    static constexpr bool is_record = true;  // it may be one
    static constexpr bool is_erased = true;
    static constexpr bool checks_entries = true;

    explicit AnyMonoid(std::unique_ptr<AnyOps> ops) : ops_(std::move(ops)) {}
    AnyMonoid(const AnyMonoid& other) : Counted(other), ops_(other.ops_->clone()) {}
    AnyMonoid(AnyMonoid&&) = default;

    const char* name() const { return ops_->name(); }
    bool regroups() const { return ops_->regroups(); }
    bool timed() const { return ops_->timed(); }
    bool joins() const { return ops_->joins(); }
    uint32_t best_leaf_capacity() const { return ops_->leaf_capacity(); }
    uint32_t best_fanout() const { return ops_->fanout(); }
    Out shown_as() const { return ops_->shown_as(); }
    Ref result_kinds() const { return ops_->result_kinds(); }

    Input input(PyObject* value) const { return ops_->input(value); }
    Input input_at(const Column& column, size_t row) const { return ops_->input_at(column, row); }
    template <class Moment>
    Entry lift(Input input, const Moment& moment) const {
        if (timed()) date(input, moment);
        return input;
    }
    template <class Moment>
    void date(Entry& entry, const Moment& moment) const {
        ops_->date(entry, moment.word());
    }

    bool merge(Entry& entry, const Entry& more) { return ++combines, ops_->merge(entry, more); }
    Agg of(const Entry& entry) const { return ops_->of(entry); }
    void append(Agg& agg, const Agg& other) { ++combines, ops_->append(agg, other); }
    void prepend(const Agg& other, Agg& agg) { ++combines, ops_->prepend(other, agg); }
    void append_entry(Agg& agg, const Entry& entry) { ++combines, ops_->append_entry(agg, entry); }
    void prepend_entry(const Entry& entry, Agg& agg) { ++combines, ops_->prepend_entry(entry, agg); }

    Ref result(const Agg& agg) const { return ops_->result(agg, {}); }
    Ref result(const Agg& agg, const Span& span) const { return ops_->result(agg, span); }
    Ref empty() const { return empty(none(), none()); }
    Ref empty(const Ref& start, const Ref& stop) const { return ops_->empty(start, stop); }
    void store(Output& out, size_t row, const Agg& agg) const { ops_->store(out, row, agg, {}); }
    void store(Output& out, size_t row, const Agg& agg, const Span& span) const { ops_->store(out, row, agg, span); }
    Ref state(const Agg& agg) const { return ops_->state(agg); }
    Ref seen(const Agg& agg) const { return ops_->seen(agg); }
    Entry thaw(PyObject* state) const { return ops_->thaw(state); }
    void see(const Entry& entry) { ops_->see(entry); }
    bool same(const Agg& a, const Agg& b) const { return ops_->same(a, b); }

    bool valid(const Entry& entry) const { return ops_->valid(entry); }
    void write(std::string& bytes, const Entry& entry) const { ops_->write(bytes, entry); }
    bool read(const char*& at, const char* end, Entry& entry) const { return ops_->read(at, end, entry); }

   private:
    std::unique_ptr<AnyOps> ops_;
};

}  // namespace sash
