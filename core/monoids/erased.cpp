#include "monoids/erased.hpp"

#include "monoids/natives.hpp"

namespace sash {

namespace {

// Counting is AnyMonoid's: every operation below that combines does so once, whatever the monoid.
template <class Monoid>
class OpsOf final : public AnyOps {
    using Entry = typename Monoid::Entry;
    using Agg = typename Monoid::Agg;
    static constexpr bool is_plain = std::is_trivially_copyable_v<Entry>;

   public:
    explicit OpsOf(const MonoidSpec& spec) : monoid_(spec) {}
    std::unique_ptr<AnyOps> clone() const override { return std::make_unique<OpsOf>(*this); }
    const char* name() const override { return Monoid::name; }
    bool regroups() const override { return monoid_.regroups(); }
    bool timed() const override {
        if constexpr (Monoid::takes_time) return monoid_.timed();
        return false;
    }
    bool joins() const override {
        if constexpr (Monoid::is_record) return monoid_.joins();
        return Monoid::commutes;
    }
    uint32_t leaf_capacity() const override { return Monoid::leaf_capacity; }
    uint32_t fanout() const override { return Monoid::fanout; }
    Out shown_as() const override {
        if constexpr (Monoid::is_record) return monoid_.shown_as();
        return Monoid::out;
    }
    Ref result_kinds() const override {
        if constexpr (Monoid::is_record) return monoid_.result_kinds();
        return none();
    }

    AnyValue input(PyObject* value) const override { return AnyValue(Entry(monoid_.lift(monoid_.input(value)))); }
    AnyValue input_at(const Column& column, size_t row) const override {
        return AnyValue(Entry(monoid_.lift(monoid_.input_at(column, row))));
    }
    void date(AnyValue& entry, int64_t time) const override {
        if constexpr (Monoid::is_record) monoid_.date(entry.as<Entry>(), time);
    }
    bool merge(AnyValue& entry, const AnyValue& more) override {
        return monoid_.merge(entry.as<Entry>(), more.as<Entry>());
    }
    AnyValue of(const AnyValue& entry) const override { return AnyValue(Agg(monoid_.of(entry.as<Entry>()))); }
    void append(AnyValue& agg, const AnyValue& other) override { monoid_.append(agg.as<Agg>(), other.as<Agg>()); }
    void prepend(const AnyValue& other, AnyValue& agg) override { monoid_.prepend(other.as<Agg>(), agg.as<Agg>()); }
    void append_entry(AnyValue& agg, const AnyValue& entry) override {
        monoid_.append_entry(agg.as<Agg>(), entry.as<Entry>());
    }
    void prepend_entry(const AnyValue& entry, AnyValue& agg) override {
        monoid_.prepend_entry(entry.as<Entry>(), agg.as<Agg>());
    }

    Ref result(const AnyValue& agg, const Span& span) const override {
        if constexpr (Monoid::is_record) return monoid_.result(agg.as<Agg>(), span);
        return monoid_.result(agg.as<Agg>());
    }
    Ref empty(const Ref& start, const Ref& stop) const override {
        if constexpr (Monoid::is_record) return monoid_.empty(start, stop);
        return monoid_.empty();
    }
    void store(Output& out, size_t row, const AnyValue& agg, const Span& span) const override {
        if constexpr (Monoid::is_record)
            monoid_.store(out, row, agg.as<Agg>(), span);
        else
            monoid_.store(out, row, agg.as<Agg>());
    }
    Ref state(const AnyValue& agg) const override { return monoid_.state(agg.as<Agg>()); }
    Ref seen(const AnyValue& agg) const override {
        if constexpr (Monoid::is_record) return monoid_.seen(agg.as<Agg>());
        return monoid_.state(agg.as<Agg>());
    }
    AnyValue thaw(PyObject* state) const override { return AnyValue(Entry(monoid_.thaw(state))); }
    void see(const AnyValue& entry) override {
        if constexpr (Monoid::is_record) monoid_.see(entry.as<Entry>());
    }
    bool same(const AnyValue& a, const AnyValue& b) const override { return monoid_.same(a.as<Agg>(), b.as<Agg>()); }

    bool valid(const AnyValue& entry) const override {
        if constexpr (Monoid::checks_entries) return monoid_.valid(entry.as<Entry>());
        return true;
    }
    void write(std::string& bytes, const AnyValue& entry) const override {
        const Entry& held = entry.as<Entry>();
        if constexpr (is_plain)
            bytes.append(reinterpret_cast<const char*>(&held), sizeof held);
        else
            monoid_.write(bytes, held);
    }
    bool read(const char*& at, const char* end, AnyValue& entry) const override {
        Entry held;
        if constexpr (is_plain) {
            if (static_cast<size_t>(end - at) < sizeof held) return false;
            std::memcpy(&held, at, sizeof held);
            at += sizeof held;
        } else if (!monoid_.read(at, end, held)) {
            return false;
        }
        entry = AnyValue(std::move(held));
        return true;
    }

   private:
    Monoid monoid_;
};

template <class... Monoids>
std::unique_ptr<AnyOps> any_ops(const std::string& name, const MonoidSpec& spec, std::tuple<Monoids...>*) {
    std::unique_ptr<AnyOps> ops;
    (void)((name == Monoids::name && (ops = std::make_unique<OpsOf<Monoids>>(spec), true)) || ...);
    return ops;
}

}  // namespace

std::unique_ptr<AnyOps> any_ops(const std::string& name, const MonoidSpec& spec) {
    return any_ops(name, spec, static_cast<NativeMonoids*>(nullptr));
}

}  // namespace sash
