// The op of approximate quantiles (monoids/quantile_sketch.hpp). Its state may be much smaller than a record has room for.
#include "monoids/quantile_sketch.hpp"

namespace sash {

namespace {

using quantile::State;

struct ApproxQuantile : Facts {
    static constexpr bool small = false;

    static void prepare(Op& op) { op.scale = std::make_shared<const quantile::Scale>(op.parameters); }
    static uint32_t words(const Op& op) { return State::kHead + State::kOthers + op.scale->most; }
    static uint32_t used(const Op&, const int64_t* s) { return State::at(s).words(); }
    static uint32_t room(const Op& op, uint64_t rows) {
        if (rows > op.scale->list) return op.words;
        return std::min(op.words, State::kHead + (static_cast<uint32_t>(rows) + 1) / 2);
    }

    static void set(const Op& op, int64_t* s, int64_t x, int64_t, int64_t) {
        double value = real(x);
        std::fill(s, s + State::kHead + 1, 0);
        State& state = State::at(s);
        state.count = 1;
        state.least = state.greatest = word_of(value);
        state.keys()[0] = op.scale->key_of(value);
    }
    static void add(const Op& op, int64_t* s, int64_t x, int64_t, int64_t) {
        quantile::add(*op.scale, State::at(s), real(x));
    }
    static void join(const Op& op, int64_t* s, const int64_t* o) {
        quantile::join(*op.scale, State::at(s), State::at(o));
    }
    static bool same(const Op& op, const int64_t* a, const int64_t* b, double) {
        std::vector<int64_t> one(a, a + used(op, a)), two(b, b + used(op, b));
        for (std::vector<int64_t>* words : {&one, &two})
            quantile::tidy(*op.scale, State::at(words->data()), static_cast<uint32_t>(words->size()));
        return one == two;
    }
    // A record has as many rows as values, or more: its room follows from its rows.
    static bool sound(const Op& op, const int64_t* s) {
        const int64_t* record = s - op.offset;
        return State::at(s).count <= record[kRows] && quantile::sound(*op.scale, State::at(s));
    }
    static void tidy(const Op& op, int64_t* s) { quantile::tidy(*op.scale, State::at(s), op.words); }

    static Outputs outputs(const Op& op) {
        if (op.scale->listed) return {Outputs::Shape::list, "f", op.scale->shares.size()};
        return {Outputs::Shape::words, "f", 0};
    }
    static bool lower(const Op& op, const int64_t* s, const Span&, int64_t* out) {
        if (op.scale->listed) *out++ = static_cast<int64_t>(op.scale->shares.size());
        quantile::quantiles(*op.scale, State::at(s), reinterpret_cast<double*>(out));
        return true;
    }
};

}  // namespace

const std::vector<OpTable>& quantile_ops() {
    static const std::vector<OpTable> tables = {table_of<ApproxQuantile>("approx_quantile", "f")};
    return tables;
}

}  // namespace sash
