// Records of one aggregate that is often alone: its steps are compiled into the loops of `fiba`, and nothing is looked up.
//
// Everything else is that of a record: rows, bytes, results. Such a record has no nulls.
#pragma once

#include "monoids/ops_common.hpp"
#include "monoids/record.hpp"

namespace sash {

template <class T>
struct OneRecord {
    static constexpr bool inlined = true;
    static constexpr uint32_t kWords = kHeader + sizeof(typename T::State) / sizeof(int64_t);
    int64_t seen, rows;
    typename T::State state;
    int64_t* words(uint32_t) { return &seen; }
    const int64_t* words() const { return &seen; }
    bool some() const { return true; }
    void use(uint32_t) {}
};

template <class T>
struct RecordOfOne : RecordOf<OneRecord<T>> {
    using Base = RecordOf<OneRecord<T>>;
    using Base::Base;
    using Base::combines;
    using Base::plan_;
    using typename Base::Agg;
    using typename Base::Entry;

    static bool serves(const Plan& plan) { return plan.alone() == T::step; }

    typename Base::Input input_at(const Column& column, size_t row) const {
        const Column& input = column.inputs[0];
        if (input.nulls) return Base::input_at(column, row);
        Entry entry;
        entry.words[0] = input.words[row];
        entry.words[1] = 0;
        return entry;
    }
    Agg of(const Entry& entry) const {
        if (entry.tag) return Base::of(entry);
        int64_t x = entry.words[0];
        return {1, 1, T::of(op(), x, 0, 0)};
    }
    void append(Agg& agg, const Agg& other) {
        ++combines;
        add(agg, other);
    }
    void prepend(const Agg& other, Agg& agg) { append(agg, other); }
    void join_into(Agg& agg, const Agg& first, const Agg* others, size_t count) {
        combines += count;
        Agg all = first;
        for (size_t i = 0; i < count; ++i) add(all, others[i]);
        agg = all;
    }
    void append_aggs(Agg& agg, const Agg* aggs, size_t count) { join_into(agg, agg, aggs, count); }
    void append_entry(Agg& agg, const Entry& entry) {
        ++combines;
        add(agg, entry);
    }
    void prepend_entry(const Entry& entry, Agg& agg) { append_entry(agg, entry); }
    void append_entries(Agg& agg, const Entry* entries, size_t count) {
        combines += count;
        Agg all = agg;
        for (size_t i = 0; i < count; ++i) add(all, entries[i]);
        agg = all;
    }
    bool scan_back(const Entry* entries, Agg* aggs, size_t count) {
        combines += count;
        Agg all = aggs[count];
        for (size_t i = count; i-- > 0; aggs[i] = all) add(all, entries[i]);
        return true;
    }

   private:
    const Op& op() const { return plan_->ops().front(); }
    void add(Agg& agg, const Agg& other) const {
        agg.rows += other.rows;
        T::join(op(), agg.state, other.state);
    }
    void add(Agg& agg, const Entry& entry) const {
        if (entry.tag) return add(agg, of(entry));
        ++agg.rows;
        T::add(op(), agg.state, entry.words[0], 0, 0);
    }
};

using MeanOfIntegers = RecordOfOne<MeanIntegers>;
using MeanOfReals = RecordOfOne<MeanReals>;
using VarianceAlone = RecordOfOne<Variance>;
using RecordsOfOne = std::tuple<MeanOfIntegers, MeanOfReals, VarianceAlone>;

}  // namespace sash
