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
        if (frame_.gap) put_open_session(bytes, slot);
        if (!frame_.has(Extent::unbounded)) continue;
        put_number(bytes, static_cast<uint8_t>(has_before(slot)));
        if (has_before(slot))
            bytes.append(reinterpret_cast<const char*>(before_of(slot).words), before_words() * sizeof(int64_t));
    }
}

void Keyed::put_open_session(std::string& bytes, uint32_t slot) const {
    put_number(bytes, static_cast<uint32_t>(open_.has(slot)));
    if (!open_.has(slot)) return;
    put_number(bytes, open_.start(slot));
    put_number(bytes, open_.last(slot));
    bytes.append(reinterpret_cast<const char*>(open_.record(slot)), plan_->words() * sizeof(int64_t));
}

// Bytes come from anyone: whatever is used as a place, a length or a number of something is checked first.
class Keyed::Loading {
   public:
    Loading(Keyed& keyed, std::string_view bytes, const std::vector<uint32_t>& widths, int64_t next, bool ids)
        : keyed_(keyed), reader_(bytes), widths_(widths), next_(next), ids_(ids), row_(keyed.shape_.stride) {}

    bool all() {
        if (!names()) return false;
        while (reader_.left()) {
            size_t keys = keyed_.live_keys();
            if (!reader_.take(text_) || !is_key(text_, widths_)) return false;
            uint32_t slot = keyed_.slot_of(text_, hash_of(text_));
            if (keyed_.live_keys() == keys) return false;  // a key twice
            if (!rows(slot) || !awaited(slot) || (keyed_.frame_.gap && !open_session(slot)) || !before(slot))
                return false;
            keyed_.mend_breaks(slot);
        }
        return true;
    }

   private:
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

    bool names() {
        uint64_t count;
        if (!reader_.take(&count, sizeof count)) return false;
        for (uint64_t i = 0; i < count; ++i)
            if (!reader_.take(text_) || keyed_.names_->number_of(text_) != static_cast<int64_t>(i)) return false;
        return true;
    }

    bool rows(uint32_t slot) {
        size_t size = keyed_.shape_.stride * sizeof(int64_t);
        uint32_t count;
        if (!reader_.take(&count, sizeof count) || reader_.left() / size < count) return false;
        RowTree tree = keyed_.tree_of(slot);
        for (uint32_t i = 0; i < count; ++i) {
            RowPlace place{0, 0};
            if (!reader_.take(row_.data(), size) || !is_row(place)) return false;
            tree.start_if_empty();
            if (tree.size() && !keyed_.nodes_.less(tree.newest(), place)) return false;
            tree.append(place,
                        [&](auto* leaf, uint32_t at) { std::memcpy(keyed_.nodes_.row(leaf, at), row_.data(), size); });
            keyed_.entered(slot, place);
        }
        return true;
    }

    bool is_row(RowPlace& place) const {
        const RowShape& shape = keyed_.shape_;
        const Plan& plan = *keyed_.plan_;
        const int64_t* row = row_.data();
        place = {row[RowShape::kTime], row[RowShape::kTie]};
        if (!is_place(place)) return false;
        if (shape.merged) return !place.tie && !row[RowShape::kSeq] && plan.sound(row + shape.inputs_at);
        int64_t seq = RowShape::seq_of(row);
        if (seq >= next_ || (!ids_ && place.tie != seq) || !plan.sound_nulls(shape.nulls_of(row))) return false;
        if (shape.wide_nulls() && row[RowShape::kSeq] & ((int64_t{1} << RowShape::kNullBits) - 1)) return false;
        return !plan.timed() || row[shape.inputs_at + plan.time_at()] == place.time;
    }

    bool is_place(RowPlace place) const {
        if (keyed_.frame_.named && !keyed_.names_->knows(place.tie)) return false;
        return keyed_.placed(place.time) == place.time;
    }

    bool awaited(uint32_t slot) {
        uint32_t count;
        if (!reader_.take(&count, sizeof count) || reader_.left() / 16 < count || (count && !ids_)) return false;
        for (uint32_t i = 0; i < count; ++i) {
            RowPlace place;
            if (!reader_.take(&place.time, 8) || !reader_.take(&place.tie, 8) || !is_place(place)) return false;
            if (!keyed_.await(slot, place)) return false;  // twice
        }
        return true;
    }

    bool open_session(uint32_t slot) {
        uint32_t there;
        int64_t start, last;
        const Plan& plan = *keyed_.plan_;
        std::vector<int64_t> record(plan.words());
        if (!reader_.take(&there, sizeof there) || there > 1) return false;
        if (!there) return true;
        if (!reader_.take(&start, 8) || !reader_.take(&last, 8) || start > last) return false;
        if (!reader_.take(record.data(), record.size() * 8) || !record[kRows] || !plan.sound(record.data()))
            return false;
        RowTree tree = keyed_.tree_of(slot);
        if (tree.size() && tree.oldest().time <= last) return false;
        keyed_.put_open(slot, start, last, record.data());
        return true;
    }

    // What has expired is the record of some rows, all of them before those that are held.
    bool before(uint32_t slot) {
        uint8_t some;
        if (!keyed_.frame_.has(Extent::unbounded)) return true;
        if (!reader_.take(&some, sizeof some) || some > 1) return false;
        if (!some) return true;
        Before found = keyed_.make_before(slot);
        int64_t* words = found.words;
        bool read = reader_.take(words, keyed_.before_words() * sizeof(int64_t));
        RowTree tree = keyed_.tree_of(slot);
        bool sound = read && keyed_.plan_->sound(found.record()) && found.record()[kRows] > 0 &&
                     found.first() <= found.last() && (!tree.size() || found.last() <= tree.oldest().time);
        if (!sound) return Plan::clear(found.record()), false;
        ++keyed_.befores_;
        keyed_.newest_ = keyed_.rows_ ? keyed_.newest_ : std::max(keyed_.newest_, found.last());
        return true;
    }

    Keyed& keyed_;
    Reader reader_;
    const std::vector<uint32_t>& widths_;
    int64_t next_;
    bool ids_;
    std::vector<int64_t> row_;
    std::string text_;
};

bool Keyed::load(std::string_view bytes, const std::vector<uint32_t>& widths, int64_t next, bool ids) {
    bool whole = Loading(*this, bytes, widths, next, ids).all();
    touches_.clear();
    changes_.clear();
    return whole;
}

void Keyed::held(std::vector<int64_t>& seqs, std::vector<int64_t>& times, std::vector<const std::string*>& keys) const {
    for (uint32_t slot = 0; slot < windows_.size(); ++slot) {
        if (!windows_[slot].live) continue;
        keys.push_back(&windows_[slot].key);
        tree_of(slot).each_leaf([&](auto* leaf) {
            for (uint32_t i = leaf->begin; i < leaf->end; ++i) {
                seqs.push_back(RowShape::seq_of(nodes_.row(leaf, i)));
                times.push_back(nodes_.row(leaf, i)[RowShape::kTime]);
            }
        });
    }
}

// --- proof ---------------------------------------------------------------------------------------------

void Keyed::check() {
    uint64_t combines = algebra_.combines, repairs = algebra_.repairs;
    size_t rows = 0, waiting = 0, live = 0, open = 0, befores = 0;
    for (uint32_t slot = 0; slot < windows_.size(); ++slot) {
        KeyWindow& window = windows_[slot];
        live += window.live;
        rows += window.rows.size;
        befores += has_before(slot);
        check_rows(slot);
        check_open(slot);
        open += open_.has(slot);
        if (slot >= awaited_spines_.size()) continue;
        waiting += awaited_by(slot);
        tree::check(awaited_of(slot), [](auto*, uint32_t, uint32_t) { require(false, "places have no summaries"); });
        if (awaited_by(slot) && forgetting_.started())
            require(forgetting_.has(slot, awaited_of(slot).oldest().time), "a delete that waits is on the agenda");
    }
    require(live == live_keys(), "the keys that are live are counted");
    require(open == open_.count(), "the open sessions are counted");
    require(rows == rows_, "the rows that are held are counted");
    require(waiting == awaited_, "the deletes that wait are counted");
    require(befores == befores_, "the keys of which something has expired are counted");
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
        if (algebra_.gapped()) require(algebra_.gaps(node, i) == total.gaps, "a gap is that of what it covers");
    });
    if (counts_) return check_counted(slot);
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
