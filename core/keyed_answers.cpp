// Results for anchors: folds of rows, of blocks of them, and of what goes along.
#include "keyed.hpp"
#include "sorted.hpp"

namespace sash {

// --- stretches of rows ---------------------------------------------------------------------------------

int64_t Keyed::edge_of(int64_t time, size_t window) const {
    int64_t edge;
    return __builtin_sub_overflow(time, frame_.sizes[window], &edge) ? INT64_MIN : edge;
}
int64_t Keyed::first_in(int64_t time, size_t window) const {
    int64_t edge = edge_of(time, window);
    return frame_.closed_left || edge == INT64_MIN ? edge : edge + 1;
}
uint32_t Keyed::from_of(const Run& rows, uint32_t hint, int64_t time, size_t window) const {
    return rows.find_from(hint, first_in(time, window), shape_);
}
uint32_t Keyed::to_of(const Run& rows, uint32_t hint, int64_t time) const {
    if (frame_.closed_left) return rows.find_from(hint, time, shape_);
    return time == INT64_MAX ? rows.size() : rows.find_from(hint, time + 1, shape_);
}

void Keyed::fold(const Run& rows, uint32_t from, uint32_t to, int64_t* record) const {
    Plan::clear(record);
    if (from < to) fold_on(rows, from, to, record);
}

// A long stretch is some rows, whole blocks, and some rows.
void Keyed::fold_on(const Run& rows, uint32_t from, uint32_t to, int64_t* record) const {
    uint64_t block = shape_.block, dropped = rows.dropped();
    uint64_t begin = (dropped + from + block - 1) / block, end = (dropped + to) / block;
    if (to - from < 4 * block || begin >= end) return fold_rows(rows, from, to, record);
    fold_rows(rows, from, static_cast<uint32_t>(begin * block - dropped), record);
    fold_level(rows, 0, begin, end, record);
    fold_rows(rows, static_cast<uint32_t>(end * block - dropped), to, record);
}

// Many blocks are some of them, blocks of the next level, and some of them.
void Keyed::fold_level(const Run& rows, size_t level, uint64_t from, uint64_t to, int64_t* record) const {
    uint64_t begin = (from + Run::kFan - 1) / Run::kFan, end = to / Run::kFan;
    auto join = [&](uint64_t first, uint64_t last) {
        if (first < last) plan_->join(record, known(rows, level, first, last), plan_->words(), last - first);
    };
    if (to - from < 4 * Run::kFan) return join(from, to);
    join(from, begin * Run::kFan);
    fold_level(rows, level + 1, begin, end, record);
    join(end * Run::kFan, to);
}

void Keyed::fold_block(const Run& rows, size_t level, uint64_t block, int64_t* record) const {
    Plan::clear(record);
    if (level > 0) {
        const int64_t* parts = known(rows, level - 1, block * Run::kFan, (block + 1) * Run::kFan);
        return plan_->join(record, parts, plan_->words(), Run::kFan);
    }
    uint32_t start = static_cast<uint32_t>(block * shape_.block - rows.dropped());
    fold_rows(rows, start, start + shape_.block, record);
}

const int64_t* Keyed::known(const Run& rows, size_t level, uint64_t from, uint64_t to) const {
    constexpr uint64_t kGap = 1024;  // blocks that nobody asked for, and yet are cheaper than to begin anew
    rows.level(level + 1);           // so that it does not move while this one is filled
    uint32_t words = plan_->words();
    uint64_t span = shape_.block;
    for (size_t i = 0; i < level; ++i) span *= Run::kFan;
    uint64_t oldest = (rows.dropped() + span - 1) / span;
    Run::Level& blocks = rows.level(level);
    uint64_t end = blocks.first + blocks.count;
    bool gap = from > end && (from > end + kGap || end < oldest);  // too wide, or of rows that have gone
    if (blocks.count == 0 || from < blocks.first || gap) {
        blocks.first = from;
        blocks.count = 0;
    } else if (oldest > blocks.first + blocks.count / 2) {  // half of them are of rows that have gone
        uint64_t gone = std::min(oldest - blocks.first, blocks.count);
        blocks.records.erase(blocks.records.begin(), blocks.records.begin() + static_cast<ptrdiff_t>(gone * words));
        blocks.first += gone;
        blocks.count -= gone;
    }
    if (blocks.records.size() < (to - blocks.first) * words) blocks.records.resize((to - blocks.first) * words);
    for (; blocks.first + blocks.count < to; ++blocks.count)
        fold_block(rows, level, blocks.first + blocks.count, blocks.records.data() + blocks.count * words);
    return blocks.records.data() + (from - blocks.first) * words;
}

void Keyed::fold_rows(const Run& rows, uint32_t from, uint32_t to, int64_t* record) const {
    if (frame_.merged) {
        if (from < to) plan_->join(record, rows.row(from, shape_) + shape_.inputs_at, shape_.stride, to - from);
        return;
    }
    while (from < to) {
        uint32_t start = from;
        const int64_t* row = rows.row(from, shape_);
        uint64_t nulls = Run::nulls_of(row, shape_);
        if (nulls) {
            plan_->fold_nulls(record, row + shape_.inputs_at, nulls);
            ++from;
            continue;
        }
        while (from < to && !Run::nulls_of(rows.row(from, shape_), shape_)) ++from;
        plan_->fold(record, {row + shape_.inputs_at, shape_.stride}, from - start);
    }
}

// --- going along ---------------------------------------------------------------------------------------

class Keyed::Slider {
   public:
    // `last` is where the last stretch starts.
    Slider(const Keyed& keyed, const Run& rows, uint32_t last)
        : keyed_(keyed), rows_(rows), words_(keyed.plan_->words()), last_(last) {
        back_.resize(words_);
        Plan::clear(back_.data());
    }

    // The rows from `from` to `to`, neither of which ever goes back.
    void answer(uint32_t from, uint32_t to, int64_t* record) {
        if (from >= to_) restart(from);
        if (to > to_) {
            keyed_.fold_on(rows_, to_, to, back_.data());
            to_ = to;
        }
        if (from > front_to_) flip(from);
        const Plan& plan = *keyed_.plan_;
        if (from >= front_to_) {
            std::memcpy(record, back_.data(), words_ * sizeof(int64_t));
            return;
        }
        const int64_t* front = front_.data() + size_t{from - front_from_} * words_;
        if (back_[kRows])
            plan.join_into(record, front, back_.data(), 0, 1);
        else
            std::memcpy(record, front, words_ * sizeof(int64_t));
    }

   private:
    void restart(uint32_t from) {
        front_from_ = front_to_ = to_ = from;
        Plan::clear(back_.data());
    }
    // All rows so far become suffixes, those at which a stretch may start; what comes later starts anew.
    void flip(uint32_t from) {
        const Plan& plan = *keyed_.plan_;
        front_from_ = from;
        front_to_ = to_;
        uint32_t end = std::min(last_ + 1, front_to_);
        front_.resize(size_t{end - front_from_ + 1} * words_);
        int64_t* later = front_.data() + size_t{end - front_from_} * words_;
        keyed_.fold(rows_, end, front_to_, later);
        for (uint32_t i = end; i-- > front_from_; later -= words_) {
            int64_t* record = later - words_;
            Plan::clear(record);
            keyed_.fold_rows(rows_, i, i + 1, record);
            if (later[kRows]) plan.join(record, later, 0, 1);
        }
        Plan::clear(back_.data());
    }

    const Keyed& keyed_;
    const Run& rows_;
    uint32_t words_, last_, front_from_ = 0, front_to_ = 0, to_ = 0;
    std::vector<int64_t> front_, back_;
};

// Going along costs some combines for each row that windows take up or leave behind on the way; by blocks an answer
// costs some for each level.
bool Keyed::goes_along(const Run& rows, const Anchor& first, const Anchor& last, size_t anchors, size_t window,
                       uint32_t& last_from) const {
    constexpr size_t kMost = size_t{1} << 28;  // bytes of suffixes
    uint32_t from = from_of(rows, 0, first.time, window), to = to_of(rows, from, first.time);
    last_from = from_of(rows, from, last.time, window);
    uint32_t last_to = to_of(rows, to, last.time);
    size_t seen = to - from, each = seen, block = shape_.block;
    if (seen >= 4 * block) {
        each = block;
        for (size_t blocks = seen / block; blocks > 0; blocks /= Run::kFan)
            each += std::min<size_t>(blocks, 2 * Run::kFan);
    }
    size_t left = last_from - from, taken = last_to - to;
    if (left * plan_->words() * sizeof(int64_t) > kMost) return false;
    return anchors * each > 2 * (left + taken + each) + anchors;
}

// Anchors of one key, in time order. Few rows are folded anew for each; many are gone along.
void Keyed::answer_key(const Anchor* anchors, const uint32_t* order, size_t first, size_t last,
                       std::vector<RecordOutput>& outs) {
    constexpr size_t kFew = 24;
    const Run& rows = windows_[anchors[order[first]].slot].rows;
    std::vector<int64_t> record(plan_->words());
    for (size_t w = 0; w < frame_.sizes.size(); ++w) {
        std::unique_ptr<Slider> slider;
        uint32_t last_from;
        const Anchor &oldest = anchors[order[first]], &newest = anchors[order[last - 1]];
        if (rows.size() > kFew && goes_along(rows, oldest, newest, last - first, w, last_from))
            slider = std::make_unique<Slider>(*this, rows, last_from);
        uint32_t from = rows.find(first_in(anchors[order[first]].time, w), shape_), to = from;
        for (size_t i = first; i < last; ++i) {
            int64_t time = anchors[order[i]].time;
            from = from_of(rows, from, time, w);
            to = to_of(rows, std::max(from, to), time);
            int64_t* into = plan_->timed() ? record.data() : outs[w].slot(*plan_, i, plan_->words());
            if (slider)
                slider->answer(from, to, into);
            else
                fold(rows, from, to, into);
            if (plan_->timed()) plan_->store(into, {edge_of(time, w), time}, outs[w], order[i]);
        }
    }
    progress_->fetch_add(last - first, std::memory_order_relaxed);
}

void Keyed::answer(const std::vector<Anchor>& anchors, std::vector<RecordOutput>& outs) {
    *progress_ = 0;
    std::vector<uint32_t> order = by_key_and_time(anchors);
    bool as_it_is = std::is_sorted(order.begin(), order.end());
    for (RecordOutput& out : outs) out.places = as_it_is ? nullptr : order.data();
    for (size_t first = 0; first < order.size();) {
        size_t last = first + 1;
        while (last < order.size() && anchors[order[last]].slot == anchors[order[first]].slot) ++last;
        answer_key(anchors.data(), order.data(), first, last, outs);
        first = last;
    }
    for (RecordOutput& out : outs) {
        out.flush();
        out.places = nullptr;
    }
}

Keyed::Spans Keyed::spans(const std::vector<Anchor>& anchors) const {
    Spans spans{by_key_and_time(anchors), {}, {}, {}, {}};
    size_t windows = frame_.sizes.size(), count = anchors.size();
    spans.from.resize(windows * count);
    spans.to.resize(windows * count);
    for (size_t first = 0; first < count;) {
        const Run& rows = windows_[anchors[spans.order[first]].slot].rows;
        size_t last = first, base = spans.seqs.size();
        uint32_t lowest = rows.size(), highest = 0;
        for (; last < count && &windows_[anchors[spans.order[last]].slot].rows == &rows; ++last) {
            int64_t time = anchors[spans.order[last]].time;
            for (size_t w = 0; w < windows; ++w) {
                uint32_t from = from_of(rows, 0, time, w), to = to_of(rows, from, time);
                spans.from[w * count + last] = from;
                spans.to[w * count + last] = to;
                lowest = std::min(lowest, from);
                highest = std::max(highest, to);
            }
        }
        for (uint32_t i = lowest; i < highest; ++i) {
            spans.seqs.push_back(Run::seq_of(rows.row(i, shape_)));
            spans.times.push_back(rows.time(i, shape_));
        }
        int64_t shift = static_cast<int64_t>(base) - lowest;
        for (size_t w = 0; w < windows; ++w)
            for (size_t i = first; i < last; ++i) spans.from[w * count + i] += shift, spans.to[w * count + i] += shift;
        first = last;
    }
    return spans;
}

// --- tables that are all there --------------------------------------------------------------------------

bool Keyed::rolls(const Column& inputs) const {
    for (size_t i = 0; i < inputs.input_count; ++i)
        if (inputs.inputs[i].nulls) return false;
    for (const Op& op : plan_->ops())
        if (op.words ? op.step == Step::other || op.table->timed : op.reads.size() > 0) return false;
    return true;
}

bool Keyed::roll(const int64_t* times, const Column& inputs, std::vector<RecordOutput>& outs) {
    if (!rolls(inputs)) return false;
    *progress_ = 0;
    auto earlier = [&](uint32_t a, uint32_t b) { return times[a] < times[b]; };
    for (size_t first = 0; first < order_.size();) {
        size_t last = first + 1;
        while (last < order_.size() && slots_[order_[last]] == slots_[order_[first]]) ++last;
        auto begin = order_.begin() + static_cast<ptrdiff_t>(first),
             end = order_.begin() + static_cast<ptrdiff_t>(last);
        bool sorted = std::is_sorted(begin, end, earlier);
        if (!sorted) std::stable_sort(begin, end, earlier);
        bool whole = sorted && last - first == order_.size();  // one key: rows lie as they are
        roll_key(times, whole ? nullptr : order_.data() + first, last - first, inputs, outs);
        first = last;
    }
    return true;
}

void Keyed::roll_key(const int64_t* times, const uint32_t* order, size_t count, const Column& inputs,
                     std::vector<RecordOutput>& outs) const {
    auto time = [&](size_t i) { return times[order ? order[i] : i]; };
    bool left = frame_.closed_left;
    std::vector<uint32_t> from(count), to(count);
    for (size_t i = 0, edge = 0; i < count; to[i++] = static_cast<uint32_t>(edge))
        while (edge < count && (left ? time(edge) < time(i) : time(edge) <= time(i))) ++edge;
    for (size_t w = 0; w < frame_.sizes.size(); ++w) {
        for (size_t i = 0, edge = 0; i < count; from[i++] = static_cast<uint32_t>(edge)) {
            int64_t start;
            if (__builtin_sub_overflow(time(i), frame_.sizes[w], &start)) continue;  // nothing is older
            while (edge < count && (left ? time(edge) < start : time(edge) <= start)) ++edge;
        }
        size_t at = 0;
        RecordOutput& out = outs[w];
        for (size_t p = 0; p < plan_->parts(); ++p) {
            const Op& op = plan_->ops()[p];
            int64_t* columns[] = {out.words + at * out.rows, out.words + (at + 1) * out.rows};
            uint8_t* there = out.there + p * out.rows;
            if (op.words) {
                const int64_t* words = inputs.inputs[op.inputs[0]].words;
                slide_common(op, words, order, {from.data(), to.data(), count}, columns, there);
            } else {
                for (size_t i = 0; i < count; ++i) {
                    columns[0][order ? order[i] : i] = to[i] > from[i] ? to[i] - from[i] : 0;
                    there[order ? order[i] : i] = 1;
                }
            }
            at += op.outputs;
        }
        progress_->fetch_add(count, std::memory_order_relaxed);
    }
}

}  // namespace sash
