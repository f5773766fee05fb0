// The rows of a key: a tree of words, and how its summaries are combined.
//
// A row is its header and then its inputs, or its pane's record. Ties are the rows' ids where they have any, otherwise the
// order of arrival.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "keyed/gaps.hpp"
#include "monoids/plan.hpp"
#include "tree/bulk.hpp"
#include "tree/cursor.hpp"
#include "tree/summaries.hpp"
#include "tree/word_nodes.hpp"

namespace sash {

using tree::RowPlace;
inline constexpr int64_t kFirstTie = INT64_MIN;  // before every tie, so that a time comes before all its rows

// What a string has allocated: nothing where it is short.
inline size_t string_bytes(const std::string& text) {
    return text.capacity() > std::string().capacity() ? tree::allocated_bytes(text.capacity() + 1) : 0;
}

// Ids that are bytes: each has a number, and numbers are ordered as their bytes are.
class Names final : public tree::TieOrder {
   public:
    int64_t number_of(std::string_view name) {
        auto found = numbers_.find(name);
        if (found != numbers_.end()) return found->second;
        names_.emplace_back(name);
        long_bytes_ += string_bytes(names_.back());
        int64_t number = static_cast<int64_t>(names_.size()) - 1;
        numbers_.emplace(names_.back(), number);
        return number;
    }
    // Forgets the names from a number on.
    void forget_from(size_t number) {
        for (; names_.size() > number; names_.pop_back()) {
            numbers_.erase(names_.back());
            long_bytes_ -= string_bytes(names_.back());
        }
    }
    const std::string& name_of(int64_t number) const { return names_[static_cast<size_t>(number)]; }
    bool knows(int64_t number) const { return number >= 0 && static_cast<size_t>(number) < names_.size(); }
    size_t size() const { return names_.size(); }
    // What is allocated: the names, a node of the map for each (a link, a view, a number, a hash), and its table.
    size_t bytes() const {
        size_t node = tree::allocated_bytes(sizeof(void*) + sizeof(std::string_view) + 2 * sizeof(int64_t));
        return names_.size() * (sizeof(std::string) + node) + long_bytes_ + numbers_.bucket_count() * sizeof(void*);
    }
    bool less(int64_t a, int64_t b) const override {
        if (a == b || b == INT64_MIN) return false;
        return a == INT64_MIN || name_of(a) < name_of(b);
    }

   private:
    std::deque<std::string> names_;  // which never move, so that the map can lean on them
    std::unordered_map<std::string_view, int64_t> numbers_;
    size_t long_bytes_ = 0;  // of names that are too long to stand in their strings
};

// What all rows of an engine have in common.
struct RowShape {
    static constexpr uint32_t kTime = 0, kTie = 1, kSeq = 2, kMark = 3, kNulls = 4;  // the last of them where it must
    static constexpr uint64_t kNullBits = 16;  // of kSeq: its lowest bits say which inputs are null
    uint32_t stride = 0, inputs_at = 0;
    uint32_t identity_at = 0;  // a hash of what the inputs do not tell apart, for deletes; 0: they tell all
    bool merged = false;       // rows are panes

    bool wide_nulls() const { return inputs_at > kNulls; }
    static int64_t seq_of(const int64_t* row) {
        return static_cast<int64_t>(static_cast<uint64_t>(row[kSeq]) >> kNullBits);
    }
    uint64_t nulls_of(const int64_t* row) const {
        if (wide_nulls()) return static_cast<uint64_t>(row[kNulls]);
        return static_cast<uint64_t>(row[kSeq]) & ((uint64_t{1} << kNullBits) - 1);
    }
    void set_header(int64_t* row, RowPlace place, int64_t seq, uint64_t nulls) const {
        row[kTime] = place.time;
        row[kTie] = place.tie;
        row[kSeq] = static_cast<int64_t>(static_cast<uint64_t>(seq) << kNullBits | (wide_nulls() ? 0 : nulls));
        row[kMark] = 0;
        if (wide_nulls()) row[kNulls] = static_cast<int64_t>(nulls);
    }
};

// A record under way, and how many combines it took. It stands where it is wanted, or here.
class RowTotal {
   public:
    explicit RowTotal(int64_t* into) : words_(into) { Plan::clear(words_); }
    explicit RowTotal(uint32_t words) : words_(own_) {
        if (words > kOwn) {
            large_.reset(new int64_t[words]);  // not cleared: little of it may be used
            words_ = large_.get();
        }
        Plan::clear(words_);
    }
    RowTotal(const RowTotal&) = delete;
    int64_t* words() { return words_; }
    uint64_t combines = 0;
    Gaps gaps;  // where they are kept

   private:
    static constexpr uint32_t kOwn = 24;
    int64_t* words_;
    int64_t own_[kOwn];
    std::unique_ptr<int64_t[]> large_;
};

// How rows and records are combined, and what is kept of them: summaries and nothing else.
class RowAlgebra : public tree::NoEnds {
   public:
    using Total = RowTotal;
    using Leaf = tree::WordLeaf;
    using Inner = tree::WordInner;

    // `joins`: where order does not matter, rows join summaries; trees of which nobody asks for summaries never have any.
    // `gapped`: summaries have the gaps between rows too, which a row in the middle of one may make narrower.
    RowAlgebra(const Plan& plan, const RowShape& shape, tree::WordNodes& nodes, bool joins, bool gapped = false)
        : plan_(plan), shape_(shape), nodes_(nodes), joins_(joins && !gapped), gapped_(gapped) {}

    uint64_t combines = 0;  // of all kinds
    uint64_t repairs = 0;   // those that made or changed summaries

    Total total() const { return Total(plan_.words()); }
    void add_entries(Total& total, const Leaf* leaf, uint32_t from, uint32_t to) {
        add_rows(total, nodes_.row(leaf, from), to - from);
    }
    void add_rows(Total& total, const int64_t* row, size_t count) {
        total.combines += count;
        fold(total.words(), row, count);
        if (gapped_) total.gaps.add_rows(row, count, shape_.stride);
    }
    void add_summaries(Total& total, const Inner* node, uint32_t from, uint32_t to) {
        if (from == to) return;
        total.combines += to - from;
        join(total.words(), nodes_.summary(node, from), nodes_.summary_words(), to - from);
        for (; gapped_ && from < to; ++from) total.gaps.add(gaps(node, from));
    }
    void add_total(Total& total, Total& other) {
        plan_.join(total.words(), other.words(), 0, 1);
        total.gaps.add(other.gaps);
    }
    void store(Total& total, Inner* node, uint32_t index) {
        int64_t* summary = nodes_.summary(node, index);
        plan_.copy(total.words(), summary);
        if (gapped_) total.gaps.write(summary + plan_.words());
        combines += total.combines;
        repairs += total.combines;
    }

    bool gapped() const { return gapped_; }
    // Of a child whose summary is valid.
    Gaps gaps(const Inner* node, uint32_t index) const {
        return Gaps::read(nodes_.summary(node, index) + plan_.words());
    }

    bool joins() const { return joins_; }
    void join(Inner* node, uint32_t index, const int64_t* row) {
        fold(nodes_.summary(node, index), row, 1);
        ++combines;
        ++repairs;
    }

    // Adds rows that lie side by side to a record.
    void fold(int64_t* record, const int64_t* row, size_t count) const {
        if (shape_.merged) return join(record, row + shape_.inputs_at, shape_.stride, count);
        for (const int64_t* end = row + count * shape_.stride; row < end;) {
            const int64_t* start = row;
            if (uint64_t nulls = shape_.nulls_of(row)) {
                plan_.fold_nulls(record, row + shape_.inputs_at, nulls);
                row += shape_.stride;
                continue;
            }
            while (row < end && !shape_.nulls_of(row)) row += shape_.stride;
            plan_.fold(record, {start + shape_.inputs_at, shape_.stride},
                       static_cast<size_t>(row - start) / shape_.stride);
        }
    }

   private:
    // Adds records that lie so many words apart; to one that has nothing the first is copied.
    void join(int64_t* record, const int64_t* others, size_t stride, size_t count) const {
        if (count && !record[kRows]) {
            plan_.copy(others, record);
            others += stride;
            --count;
        }
        if (count) plan_.join(record, others, stride, count);
    }

    const Plan& plan_;
    const RowShape& shape_;
    tree::WordNodes& nodes_;
    bool joins_, gapped_;
};

using RowNodes = tree::WordNodes;
using RowTree = tree::Tree<tree::SharedParts<RowNodes, RowAlgebra>>;
using RowCursor = tree::Cursor<RowTree>;
using RowSummaries = tree::Summaries<RowNodes, RowAlgebra>;

}  // namespace sash
