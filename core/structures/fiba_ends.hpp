// The ends of `fiba`: finger stacks and spine aggregates, which make a query of the whole window O(1).
//
// A query reads three parts:
//   suffix   of the left finger leaf, from its oldest entry to its end     one aggregate per entry, like a stack
//   middle   everything between the two finger leaves                      one aggregate
//   prefix   of the right finger leaf, from its start to its newest entry  one aggregate per entry
//
// The middle is computed from the spines. own(k) of a spine node at level k covers its children except the one on the
// spine; cum(k) is own of all levels from k up to below the root. So a change at level k makes own(k) and the cums at
// k and below stale, and nothing above: as many levels as the change is away from the nearer end.
//
//   middle = cum_left(1) (x) inner children of the root (x) cum_right(1)
//
// In a window of one leaf that leaf is both fingers: suffix and prefix meet at a split inside it, two-stacks in one leaf.
// Queries repair everything, each part only after the parts that it is computed from, so a combine that raises leaves
// nothing wrong behind.
#pragma once

#include "base/error.hpp"
#include "tree/summaries.hpp"
#include "tree/typed_nodes.hpp"

namespace sash::fiba {

using tree::low_bits;
using tree::Node;

inline constexpr uint32_t kNone = UINT32_MAX;

// How the summaries of `fiba` are combined: by its monoid.
template <class Nodes, class Monoid>
struct Algebra {
    using Total = Fold<Monoid>;
    using Leaf = typename Nodes::Leaf;
    using Inner = typename Nodes::Inner;
    Monoid& monoid;

    Total total() { return Total(monoid); }
    void add_entries(Total& total, const Leaf* leaf, uint32_t from, uint32_t to) {
        total.append_entries(leaf->entries + from, to - from);
    }
    void add_summaries(Total& total, const Inner* node, uint32_t from, uint32_t to) {
        total.append_aggs(node->aggs + from, to - from);
    }
    void add_total(Total& total, Total& other) { total.append(other.get()); }
    void store(Total& total, Inner* node, uint32_t index) { node->aggs[index] = std::move(total.get()); }
};

template <class TimeType, class MonoidType>
class Ends {
   public:
    using Time = TimeType;
    using Monoid = MonoidType;
    using Entry = typename Monoid::Entry;
    using Agg = typename Monoid::Agg;
    using Nodes = tree::TypedNodes<Time, Entry, Agg>;
    using LeafNode = typename Nodes::Leaf;
    using InnerNode = typename Nodes::Inner;
    using Spines = typename Nodes::Spines;
    using Summaries = tree::Summaries<Nodes, Algebra<Nodes, Monoid>>;

    Ends(Monoid monoid, const Nodes& nodes, const Spines& spines)
        : monoid_(std::move(monoid)),
          spines_(spines),
          algebra_{monoid_},
          summaries_(nodes, spines, algebra_),
          suffix_(nodes.capacity()),
          prefix_(nodes.capacity()),
          capacity_(nodes.capacity()) {}
    // A copy of the tree has its entries in the same slots, so all aggregates are where they were.
    Ends(const Ends& other, const Nodes& nodes, const Spines& spines) : Ends(other.monoid_, nodes, spines) {
        suffix_ = other.suffix_, prefix_ = other.prefix_;
        suffix_from_ = other.suffix_from_, suffix_to_ = other.suffix_to_;
        prefix_from_ = other.prefix_from_, prefix_to_ = other.prefix_to_, stack_to_ = other.stack_to_;
        middle_ = other.middle_, total_ = other.total_, inner_ = other.inner_;
        left_ = other.left_, right_ = other.right_;
        inner_valid_ = other.inner_valid_, inner_some_ = other.inner_some_;
        middle_valid_ = other.middle_valid_, middle_some_ = other.middle_some_;
    }
    Ends(const Ends&) = delete;

    Monoid& monoid() { return monoid_; }
    Summaries& summaries() { return summaries_; }

    // --- called by updates ----------------------------------------------------------------------------

    void height_changed() {
        uint32_t height = spines_.height();
        for (Side* side : {&left_, &right_}) {
            if (side->own.size() < height) {
                side->own.resize(height);
                side->cum.resize(height);
            }
            for (uint32_t level = 0; level < side->own.size(); ++level) side->change(level);
            side->cum_from = height;
        }
        inner_valid_ = false;
        middle_changed();
        clear_slot(inner_);
        left_finger_moved();
        right_finger_moved();
    }
    void left_finger_moved() {
        forget_suffix();
        if (spines_.height() == 0) forget_prefix();
    }
    void right_finger_moved() {
        forget_prefix();
        if (spines_.height() == 0) forget_suffix();
    }
    void finger_rewritten(const LeafNode* leaf) {
        if (leaf == spines_.left(0)) left_finger_moved();
        if (leaf == spines_.right(0)) right_finger_moved();
    }

    // The children of a spine node other than the one on the spine have changed.
    void spine_changed(const Node* node, uint32_t level) {
        middle_changed();
        if (level == spines_.height()) {
            inner_valid_ = false;
            clear_slot(inner_);
        } else if (node == spines_.left(level)) {
            left_.change(level);
        } else {
            right_.change(level);
        }
    }
    void level_changed(uint32_t level) {
        spine_changed(spines_.left(level), level);
        spine_changed(spines_.right(level), level);
    }

    // The oldest entry has left the left finger.
    void popped_front(const LeafNode* leaf) {
        clear_slot(suffix_[leaf->begin - 1]);
        if (spines_.height() > 0 || suffix_to_ == kNone || leaf->begin <= suffix_to_) return;
        forget_prefix();
        suffix_from_ = suffix_to_ = leaf->end;  // the flip
        start_prefix(leaf->end);
    }

    // An entry of a finger has another value.
    void changed_at(const LeafNode* leaf, uint32_t position) {
        if (in_suffix(leaf, position)) keep_suffix_after(position);
        if (in_prefix(leaf, position)) keep_prefix_before(position);
    }

    // --- called by updates where order does not matter: a new entry then joins the valid aggregates -----

    bool joins() const {
        if constexpr (Monoid::is_record)
            return monoid_.joins();
        else
            return Monoid::commutes;
    }
    void join(InnerNode* node, uint32_t index, const Entry& entry) { monoid_.append_entry(node->aggs[index], entry); }

    // A child was split into two, at `index` and after it, which its valid summary covered.
    static constexpr bool summarizes = true;
    SASH_RARE void summarize_pair(InnerNode* node, uint32_t level, uint32_t index) {
        summaries_.repair(node, level, index);
        summaries_.repair(node, level, index + 1);
    }

    // `more` was merged into an entry of a finger.
    void joined_at(const LeafNode* leaf, uint32_t position, const Entry& more) {
        if (in_suffix(leaf, position)) keep_suffix_after(position);
        if (!in_prefix(leaf, position) || prefix_to_ == kNone || position >= prefix_to_) return;
        monoid_.append_entry(total_, more);
        stack_to_ = std::min(stack_to_, position);
    }

    // An entry was inserted at `position` of a finger; the entries before it have moved left, or those after it right.
    void inserted(const LeafNode* leaf, uint32_t position, bool before, const Entry& entry) {
        if (!joins() || !in_prefix(leaf, position) || (before && spines_.height() == 0))
            return moved(leaf, position, before);
        if (prefix_to_ == kNone) return;
        bool inside = before ? position + 1 < prefix_to_ : position < prefix_to_;
        if (before) {
            stack_to_ = --prefix_from_;
            prefix_to_ -= !inside;
        } else {
            stack_to_ = std::min(stack_to_, position);
            prefix_to_ += inside;
        }
        if (inside) monoid_.append_entry(total_, entry);
    }

    // An entry was inserted below a spine node with valid summaries, and has joined the child that it is in.
    void joined(const Node* node, uint32_t level, const Entry& entry) {
        if (level == spines_.height()) {
            if (inner_valid_) monoid_.append_entry(inner_, entry);
        } else {
            Side& side = node == spines_.left(level) ? left_ : right_;
            if (side.own_valid >> level & 1) monoid_.append_entry(side.own[level], entry);
            for (uint32_t k = std::max(1u, side.cum_from); k <= level; ++k) monoid_.append_entry(side.cum[k], entry);
        }
        if (middle_valid_) monoid_.append_entry(middle_, entry);
    }

    // An entry was inserted at or evicted from `position` of a leaf; the entries before it have moved, or those after.
    void moved(const LeafNode* leaf, uint32_t position, bool before) {
        bool suffix = in_suffix(leaf, position), prefix = in_prefix(leaf, position);
        if (suffix && before) keep_suffix_after(position);
        if (prefix && !before) keep_prefix_before(position);
        if (suffix && !before) left_finger_moved();
        if (prefix && before) right_finger_moved();
    }

    // The right finger leaf is full and another one follows it: its prefix becomes its summary.
    std::optional<Agg> keep_prefix() const {
        auto* leaf = static_cast<const LeafNode*>(spines_.right(0));
        bool complete = spines_.height() > 0 && prefix_from_ == leaf->begin && prefix_to_ == leaf->end;
        return complete && leaf->count() ? std::optional<Agg>(whole_prefix(leaf)) : std::nullopt;
    }
    void give_prefix(std::optional<Agg>& prefix, InnerNode* parent, uint32_t index) {
        if (!prefix) return;
        parent->aggs[index] = std::move(*prefix);
        parent->set_valid(index);
    }

    // --- called by queries -------------------------------------------------------------------------------

    Agg whole() {
        if (spines_.height() == 0) return one_leaf();
        if constexpr (Monoid::in_place)
            if (joins()) {
                Agg agg;
                whole_into(agg);
                return agg;
            }
        auto *left = left_leaf(), *right = right_leaf();
        prepare(left, right);
        AtWork<Monoid> monoid(monoid_);
        if (prefix_to_ < right->end) extend_prefix(right, monoid);
        Agg agg = suffix_[left->begin];
        if (middle_some_) monoid->append(agg, middle_);
        monoid->append(agg, whole_prefix(right));
        return agg;
    }

    // The same for a record, built in place. A wide one starts from its widest part, and a small one takes two at once.
    void whole_into(Agg& agg) {
        if (spines_.height() == 0 || !joins()) {
            agg = whole();
            return;
        }
        auto *left = left_leaf(), *right = right_leaf();
        prepare(left, right);
        if (prefix_to_ < right->end) {
            AtWork<Monoid> monoid(monoid_);
            extend_prefix(right, monoid);
        }
        if constexpr (Monoid::is_inline) {
            monoid_.join_into(agg, suffix_[left->begin], ends_ + !middle_some_, 1 + middle_some_);
        } else if (!middle_some_) {
            agg = suffix_[left->begin];
            monoid_.append(agg, total_);
        } else {
            monoid_.join_to_widest(agg, middle_, suffix_[left->begin], total_);
        }
    }

    // --- many rounds -------------------------------------------------------------------------------------

    // Whether many rounds can be run at once: nothing is shared, and nothing but a row or a result can fail.
    static constexpr bool runs = !Monoid::may_throw && !Monoid::is_record && std::is_trivially_copyable_v<Time> &&
                                 std::is_trivially_copyable_v<Entry> && std::is_trivially_copyable_v<Agg>;
    // The same for records, whose results go to columns.
    static constexpr bool runs_in_columns =
        Monoid::is_record && std::is_same_v<Time, int64_t> && std::is_trivially_copyable_v<Agg>;

    // Rounds of evict, insert and query that stay within both fingers, up to a row that is not for the right finger or whose
    // time is present. `appends` counts the rows that were the newest. (fiba_rounds.hpp)
    template <class Rows, class Emit>
    void run(const Rows& rows, size_t& row, size_t stop, uint32_t& appends, Emit emit);
    template <class Rows, class Output>
    void run_in_columns(const Rows& rows, size_t& row, size_t stop, uint32_t& appends, Output& out);

    template <class Visit>
    void visit(Visit&& f) const {
        for (const std::vector<Agg>* aggs : {&suffix_, &prefix_, &left_.own, &left_.cum, &right_.own, &right_.cum})
            for (const Agg& agg : *aggs) visit_if_ref(agg, f);
        visit_if_ref(inner_, f);
        visit_if_ref(middle_, f);
    }

    // Every valid aggregate that is stored here: visit(part, level, position in its leaf, agg). In fiba_parts.hpp.
    template <class Visit>
    SASH_COLD void each_part(Visit&& visit) const;

    // --- invariants: fiba_check.hpp ------------------------------------------------------------------------

    SASH_COLD void check();
    // Checks that the summary of child `index` is the aggregate of the entries below it.
    SASH_COLD void check_summary(InnerNode* node, uint32_t level, uint32_t index) {
        Fold<Monoid> fold(monoid_);
        summaries_.recompute(node->children[index], level - 1, fold);
        require(monoid_.same(node->aggs[index], fold.get()), "a summary is that of what it covers");
    }

   private:
    struct RunOfRounds;
    template <class Rows, class Emit>
    void append_rounds(RunOfRounds& run, const Rows& rows, AtWork<Monoid>& monoid, Emit& emit);
    template <class Rows, class Emit>
    bool late_rounds(RunOfRounds& run, const Rows& rows, AtWork<Monoid>& monoid, Emit& emit);

    SASH_COLD void check_suffix();
    SASH_COLD void check_prefix();
    SASH_COLD void check_spines(uint32_t level);
    SASH_COLD void check_middle();
    SASH_COLD std::optional<Agg> recomputed(Node* node, uint32_t level, uint32_t begin, uint32_t end);

    struct Side {
        std::vector<Agg> own, cum;  // by level; level 0, the finger leaf, has suffix or prefix instead
        uint64_t own_valid = 0;     // bit k: own[k] is valid
        uint32_t cum_from = 0;      // cum[k] is valid for k from here up
        void change(uint32_t level) {
            own_valid &= ~(uint64_t{1} << level);
            cum_from = std::max(cum_from, level + 1);
            clear_slot(own[level]);
            for (uint32_t k = 0; k <= level; ++k) clear_slot(cum[k]);
        }
    };

    // Repairs all that a query reads except the prefix, which almost every query extends.
    void prepare(LeafNode* left, LeafNode* right) {
        if (suffix_to_ == kNone) suffix_from_ = suffix_to_ = left->end;
        if (prefix_to_ == kNone) start_prefix(right->begin);
        if (suffix_from_ > left->begin) extend_suffix(left);
        if (!middle_valid_) repair_middle();
    }

    LeafNode* left_leaf() const { return static_cast<LeafNode*>(spines_.left(0)); }
    LeafNode* right_leaf() const { return static_cast<LeafNode*>(spines_.right(0)); }

    // --- the finger leaves: stacks --------------------------------------------------------------------------

    // Invalid aggregates are released at once, or they would keep evicted values alive.
    static void forget(std::vector<Agg>& aggs, uint32_t from, uint32_t to) {
        if constexpr (!std::is_trivially_destructible_v<Agg>)
            for (uint32_t i = from; i < to; ++i) clear_slot(aggs[i]);
    }
    void forget_suffix() {
        suffix_from_ = suffix_to_ = kNone;
        forget(suffix_, 0, static_cast<uint32_t>(suffix_.size()));
    }
    void forget_prefix() {
        prefix_from_ = prefix_to_ = kNone;
        forget(prefix_, 0, static_cast<uint32_t>(prefix_.size()));
    }
    void middle_changed() {
        middle_valid_ = false;
        clear_slot(middle_);
    }

    bool in_suffix(const LeafNode* leaf, uint32_t position) const {
        if (spines_.height() > 0) return leaf == spines_.left(0);
        return suffix_to_ != kNone && position < suffix_to_;
    }
    bool in_prefix(const LeafNode* leaf, uint32_t position) const {
        if (spines_.height() > 0) return leaf == spines_.right(0);
        return suffix_to_ != kNone && position >= suffix_to_;
    }
    void keep_suffix_after(uint32_t position) {
        if (suffix_to_ == kNone) return;
        suffix_from_ = std::max(suffix_from_, position + 1);
        forget(suffix_, 0, suffix_from_);
    }
    void keep_prefix_before(uint32_t position) {
        if (prefix_to_ == kNone) return;
        if (joins() && position >= prefix_to_) return;
        prefix_to_ = std::min(joins() ? stack_to_ : prefix_to_, position);
        start_total();
        forget(prefix_, prefix_to_, static_cast<uint32_t>(prefix_.size()));
    }
    // The prefix is valid up to prefix_to_, entry by entry.
    void start_total() {
        stack_to_ = prefix_to_;
        if (joins() && prefix_from_ < prefix_to_) total_ = prefix_[prefix_to_ - 1];
    }
    void start_prefix(uint32_t position) {
        prefix_from_ = prefix_to_ = position;
        start_total();
    }

    // A record's total is not stacked: it is large, and folding a leaf again takes one call per part.
    static constexpr bool stacks = !Monoid::in_place;

    // The running aggregate is a local: reading back what was just stored would make each step wait for the previous.
    SASH_RARE void extend_suffix(const LeafNode* leaf) {
        AtWork<Monoid> monoid(monoid_);
        Agg agg{};
        if constexpr (Monoid::in_place) {
            if (suffix_from_ == suffix_to_ && suffix_from_ > leaf->begin) {
                suffix_[suffix_from_ - 1] = monoid->of(leaf->entries[suffix_from_ - 1]);
                --suffix_from_;
            }
            uint32_t begin = leaf->begin, count = suffix_from_ - begin;
            if (monoid->scan_back(leaf->entries + begin, suffix_.data() + begin, count)) suffix_from_ = begin;
        }
        if (suffix_from_ < suffix_to_) agg = suffix_[suffix_from_];
        for (uint32_t i = suffix_from_; i-- > leaf->begin; suffix_from_ = i) {
            if (i + 1 == suffix_to_)
                agg = monoid->of(leaf->entries[i]);
            else
                monoid->prepend_entry(leaf->entries[i], agg);
            suffix_[i] = agg;
        }
    }

    void extend_prefix(const LeafNode* leaf, AtWork<Monoid>& monoid) {
        if (!joins() || prefix_to_ + 1 != leaf->end || prefix_from_ == prefix_to_) return extend_prefix_far(leaf);
        monoid->append_entry(total_, leaf->entries[prefix_to_]);
        if (stacks && stack_to_ == prefix_to_) prefix_[stack_to_++] = total_;
        ++prefix_to_;
    }

    SASH_RARE void extend_prefix_far(const LeafNode* leaf) {
        if (joins() && (stack_to_ < prefix_to_ || !stacks)) {  // only the total is extended
            Fold<Monoid> fold(monoid_);
            if (prefix_from_ < prefix_to_) fold.append(total_);
            fold.append_entries(leaf->entries + prefix_to_, leaf->end - prefix_to_);
            total_ = std::move(fold.get());
            prefix_to_ = leaf->end;
            return;
        }
        AtWork<Monoid> monoid(monoid_);
        Agg agg{};
        if (prefix_from_ < prefix_to_) agg = prefix_[prefix_to_ - 1];
        for (uint32_t i = prefix_to_; i < leaf->end; prefix_to_ = ++i) {
            if (i == prefix_from_)
                agg = monoid->of(leaf->entries[i]);
            else
                monoid->append_entry(agg, leaf->entries[i]);
            prefix_[i] = agg;
        }
        start_total();
    }
    const Agg& whole_prefix(const LeafNode* leaf) const { return joins() ? total_ : prefix_[leaf->end - 1]; }

    void repair(LeafNode* left, LeafNode* right) {
        if (spines_.height() == 0) return repair_one(left);
        prepare(left, right);
        if (prefix_to_ < right->end) extend_prefix_far(right);
    }
    void repair_one(LeafNode* leaf) {
        if (suffix_to_ == kNone || prefix_to_ == kNone) {
            suffix_from_ = suffix_to_ = leaf->begin;
            start_prefix(leaf->begin);
        }
        if (suffix_from_ > leaf->begin) extend_suffix(leaf);
        if (prefix_to_ < leaf->end) extend_prefix_far(leaf);
    }

    Agg one_leaf() {
        LeafNode* leaf = left_leaf();
        repair_one(leaf);
        if (leaf->begin == suffix_to_) return whole_prefix(leaf);
        Agg agg = suffix_[leaf->begin];
        if (suffix_to_ < leaf->end) monoid_.append(agg, whole_prefix(leaf));
        return agg;
    }

    // --- the middle: spines ----------------------------------------------------------------------------------

    SASH_RARE void repair_middle() {
        uint32_t height = spines_.height();
        if (!inner_valid_) {
            auto* root = static_cast<InnerNode*>(spines_.root());
            Fold<Monoid> fold(monoid_, inner_);
            summaries_.fold_children(root, height, 1, root->count - 1, fold);
            inner_some_ = fold.some();
            if (inner_some_) inner_ = std::move(fold.get());
            inner_valid_ = true;
        }
        for (; left_.cum_from > 1; --left_.cum_from) repair_left(left_.cum_from - 1);
        for (; right_.cum_from > 1; --right_.cum_from) repair_right(right_.cum_from - 1);
        Fold<Monoid> fold(monoid_, middle_);
        if (height > 1) fold.append(left_.cum[1]);
        if (inner_some_) fold.append(inner_);
        if (height > 1) fold.append(right_.cum[1]);
        middle_some_ = fold.some();
        if (middle_some_) middle_ = std::move(fold.get());
        middle_valid_ = true;
    }

    SASH_RARE void repair_left(uint32_t level) {
        auto* node = static_cast<InnerNode*>(spines_.left(level));
        if (!(left_.own_valid >> level & 1)) repair_own(left_, node, level, 1, node->count);
        if (level + 1 < spines_.height())
            cumulate(left_.cum[level], left_.own[level], left_.cum[level + 1]);
        else
            left_.cum[level] = left_.own[level];
    }

    SASH_RARE void repair_right(uint32_t level) {
        auto* node = static_cast<InnerNode*>(spines_.right(level));
        if (!(right_.own_valid >> level & 1)) repair_own(right_, node, level, 0, node->count - 1);
        if (level + 1 < spines_.height())
            cumulate(right_.cum[level], right_.cum[level + 1], right_.own[level]);
        else
            right_.cum[level] = right_.own[level];
    }

    // into = older (x) newer; a record in the memory that it has.
    void cumulate(Agg& into, const Agg& older, const Agg& newer) {
        if constexpr (Monoid::in_place) {
            into = older;
            monoid_.append(into, newer);
        } else {
            Agg agg = older;
            monoid_.append(agg, newer);
            into = std::move(agg);
        }
    }

    SASH_RARE void repair_own(Side& side, InnerNode* node, uint32_t level, uint32_t begin, uint32_t end) {
        Fold<Monoid> fold(monoid_, side.own[level]);
        summaries_.fold_children(node, level, begin, end, fold);
        side.own[level] = std::move(fold.get());
        side.own_valid |= uint64_t{1} << level;
    }

    Monoid monoid_;
    const Spines& spines_;
    Algebra<Nodes, Monoid> algebra_;
    Summaries summaries_;
    std::vector<Agg> suffix_, prefix_;
    const uint32_t capacity_;
    uint32_t suffix_from_ = kNone,
             suffix_to_ = kNone;  // suffix_[i] is that of [i, suffix_to_), for i from suffix_from_
    // prefix_[i] is that of [prefix_from_, i], for i below prefix_to_. Where order does not matter, total_ is that of
    // [prefix_from_, prefix_to_), and prefix_[i] is valid only below stack_to_: an insert among them joins the total.
    uint32_t prefix_from_ = kNone, prefix_to_ = kNone, stack_to_ = kNone;
    Agg ends_[2] = {};  // side by side, so that a query can take both at once
    Agg &middle_ = ends_[0], &total_ = ends_[1];
    Side left_, right_;
    Agg inner_{};
    bool inner_valid_ = false, inner_some_ = false, middle_valid_ = false, middle_some_ = false;
};

}  // namespace sash::fiba
