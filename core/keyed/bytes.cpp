// Everything that an engine holds: as bytes, as proof, and as plain data.
#include "keyed/keyed.hpp"
#include "tree/check.hpp"
#include "tree/plain.hpp"

namespace sash {

namespace {

template <class T>
void put_number(std::string& bytes, const T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Takes values off the front, as long as there are any.
class Reader {
   public:
    explicit Reader(std::string_view bytes) : bytes_(bytes) {}
    bool take(void* into, size_t size) {
        if (bytes_.size() < size) return false;
        if (size) std::memcpy(into, bytes_.data(), size);
        bytes_.remove_prefix(size);
        return true;
    }
    bool take(std::string& text) {
        uint32_t size;
        if (!take(&size, sizeof size) || left() < size) return false;
        text.resize(size);
        return take(text.data(), size);
    }
    size_t left() const { return bytes_.size(); }

   private:
    std::string_view bytes_;
};

void put_text(std::string& bytes, const std::string& text) {
    put_number(bytes, static_cast<uint32_t>(text.size()));
    bytes += text;
}

}  // namespace

// --- bytes ---------------------------------------------------------------------------------------------

// Rows as they lie, one key after the other; where nodes begin and end is not among it.
void Keyed::dump(std::string& bytes) {
    put_number(bytes, static_cast<uint64_t>(names_->size()));
    for (size_t i = 0; i < names_->size(); ++i) put_text(bytes, names_->name_of(static_cast<int64_t>(i)));
    for (uint32_t slot = 0; slot < windows_.size(); ++slot) {
        const KeyWindow& window = windows_[slot];
        if (!window.live) continue;
        put_text(bytes, window.key);
        put_number(bytes, window.rows.size);
        auto put_leaf = [&](const RowNodes& nodes, const tree::WordLeaf* leaf) {
            bytes.append(reinterpret_cast<const char*>(nodes.row(leaf, leaf->begin)),
                         size_t{leaf->count()} * nodes.stride() * sizeof(int64_t));
        };
        tree_of(slot).each_leaf([&](auto* leaf) { put_leaf(nodes_, leaf); });
        put_number(bytes, static_cast<uint32_t>(awaited_by(slot)));
        if (awaited_by(slot)) awaited_of(slot).each_leaf([&](auto* leaf) { put_leaf(awaited_nodes_, leaf); });
    }
}

bool Keyed::load(std::string_view bytes) {
    Reader reader(bytes);
    uint64_t names;
    std::string text;
    if (!reader.take(&names, sizeof names)) return false;
    for (uint64_t i = 0; i < names; ++i)
        if (!reader.take(text) || names_->number_of(text) != static_cast<int64_t>(i)) return false;
    std::vector<int64_t> row(shape_.stride);
    while (reader.left()) {
        uint32_t rows, waiting;
        size_t keys = live_keys();
        if (!reader.take(text) || !reader.take(&rows, sizeof rows)) return false;
        if (reader.left() / (shape_.stride * sizeof(int64_t)) < rows) return false;
        uint32_t slot = slot_of(text, hash_of(text));
        if (live_keys() == keys) return false;  // a key twice
        RowTree tree = tree_of(slot);
        for (uint32_t i = 0; i < rows; ++i) {
            if (!reader.take(row.data(), shape_.stride * sizeof(int64_t))) return false;
            RowPlace place{row[RowShape::kTime], row[RowShape::kTie]};
            if (frame_.named && !names_->knows(place.tie)) return false;
            if (frame_.merged && !plan_->sound(row.data() + shape_.inputs_at)) return false;
            tree.start_if_empty();
            if (tree.size() && !nodes_.less(tree.newest(), place)) return false;
            tree.append(place, [&](auto* leaf, uint32_t at) {
                std::memcpy(nodes_.row(leaf, at), row.data(), shape_.stride * sizeof(int64_t));
            });
            entered(slot, place.time);
        }
        if (!reader.take(&waiting, sizeof waiting) || reader.left() / 16 < waiting) return false;
        for (uint32_t i = 0; i < waiting; ++i) {
            RowPlace place;
            if (!reader.take(&place.time, 8) || !reader.take(&place.tie, 8)) return false;
            if (frame_.named && !names_->knows(place.tie)) return false;
            await(slot, place);
        }
    }
    touches_.clear();
    return true;
}

// --- proof ---------------------------------------------------------------------------------------------

void Keyed::check() {
    uint64_t combines = algebra_.combines, repairs = algebra_.repairs;
    size_t rows = 0, waiting = 0, live = 0;
    for (uint32_t slot = 0; slot < windows_.size(); ++slot) {
        KeyWindow& window = windows_[slot];
        live += window.live;
        rows += window.rows.size;
        check_rows(slot);
        if (slot >= awaited_spines_.size()) continue;
        waiting += awaited_by(slot);
        tree::check(awaited_of(slot), [](auto*, uint32_t, uint32_t) { require(false, "places have no summaries"); });
        if (awaited_by(slot) && forgetting_.started())
            require(forgetting_.has(slot, awaited_of(slot).oldest().time), "a delete that waits is on the agenda");
    }
    require(live == live_keys(), "the keys that are live are counted");
    require(rows == rows_, "the rows that are held are counted");
    require(waiting == awaited_, "the deletes that wait are counted");
    algebra_.combines = combines;
    algebra_.repairs = repairs;
}

void Keyed::check_rows(uint32_t slot) {
    KeyWindow& window = windows_[slot];
    if (!window.live) return require(!window.rows.root(), "a key that is gone has no rows");
    require(find_slot(window.key) == slot, "a key is found by its name");
    RowTree tree = tree_of(slot);
    double largest = 0;  // rounding differs with the order of combining; how much it may depends on the largest input
    tree.each_leaf([&](auto* leaf) {
        for (uint32_t i = leaf->begin; i < leaf->end && !shape_.merged; ++i) {
            const int64_t* row = nodes_.row(leaf, i);
            largest = std::max(largest, plan_->size_of(row + shape_.inputs_at, shape_.nulls_of(row)));
        }
    });
    RowSummaries summaries = summaries_of(slot);
    tree::check(tree, [&](tree::WordInner* node, uint32_t level, uint32_t i) {
        RowTotal total = algebra_.total();
        summaries.recompute(node->children[i], level - 1, total);
        require(plan_->same(nodes_.summary(node, i), total.words(), largest), "a summary is that of what it covers");
    });
    if (window.rows.size && expiring_.started())
        require(expiring_.has(slot, tree.oldest().time), "the oldest row of a key is on the agenda");
}

// --- plain data ----------------------------------------------------------------------------------------

Ref Keyed::nodes(const std::string& key) {
    uint32_t slot = find_slot(key);
    if (slot == kNoSlot) return none();
    const tree::SmallSpines& spines = windows_[slot].rows;
    return spines.size ? node_below(spines, spines.root(), spines.height(), none()) : none();
}

Ref Keyed::node_below(const tree::SmallSpines& spines, tree::Node* node, uint32_t level, const Ref& aggregate) {
    Ref keys = python_list(), values = python_list(), children = python_list();
    if (level == 0) {
        auto* leaf = static_cast<tree::WordLeaf*>(node);
        for (uint32_t i = leaf->begin; i < leaf->end; ++i) {
            RowTotal total = algebra_.total();
            algebra_.add_entries(total, leaf, i, i + 1);
            int64_t time = nodes_.place(leaf, i).time;
            append(keys, python_int(time));
            append(values, plan_->result(total.words(), {time, time}));
        }
    } else {
        auto* inner = static_cast<tree::WordInner*>(node);
        for (uint32_t i = 0; i < inner->count; ++i) {
            if (i) append(keys, python_int(inner->first[i].time));
            Ref known = inner->is_valid(i) ? plan_->result(nodes_.summary(inner, i), {}) : none();
            append(children, node_below(spines, inner->children[i], level - 1, known));
        }
    }
    return node_dict(keys, values, aggregate, spine_name(spines, node, level), children);
}

}  // namespace sash
