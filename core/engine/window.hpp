// Window: one out-of-order sliding window, the class that Python uses.
//
// It starts without kinds. The first time and value determine how times are stored and which form of the monoid runs;
// then it owns an engine of that structure, time and monoid. It also has the guard against use from within a callback,
// the move to wider entries, and the version that iterators watch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.hpp"

namespace sash {

// The kinds of a batch's times and values, from `sash.inputs.batch`.
struct Kinds {
    TimeKind time = TimeKind::object;
    Ref codec;
    std::string value;  // "int64", "float64", "any" or "object"; of a record those of its inputs, "(int64,hash)"
    bool is_record() const { return !value.empty() && value[0] == '('; }
};

Kinds kinds_from(PyObject* tuple);
const std::vector<std::string>& structure_names();

class Window {
   public:
    Window(PyObject* monoid, const std::string& structure, const Options& options);

    void insert(PyObject* time, PyObject* value);
    void insert_many(const Kinds& kinds, const Column& times, const Column& values);
    void slide(const Kinds& kinds, Slide& slide, Ref* at_end);
    void time_rounds(Slide& slide, int64_t* rounds_ns, int64_t* queries_ns);
    void run_rounds(Rounds& rounds, Window* twin);
    void run_batches(const Batches& batches);
    void require_free() { Held held(*this); }
    bool evict(PyObject* time);
    size_t evict_until(PyObject* time, bool inclusive);
    Ref query(const Bounds& bounds);
    bool contains(PyObject* time);
    size_t size();
    Ref oldest();
    Ref newest();
    Ref scan(const Bounds& bounds, bool reverse, size_t limit, Shown shown);
    Ref nodes(PyObject* around);
    void check();
    uint64_t combines();
    uint64_t spent();
    uint64_t version() const { return version_; }

    // Null until the first insert.
    const Kinds* kinds() const { return engine_ ? &kinds_ : nullptr; }
    Out out_for(const Kinds& kinds);
    Ref result_kinds_for(const Kinds& kinds);
    Contents freeze();
    bool wide(const Contents& contents) const;
    void load(const Kinds& kinds, const Contents& contents, bool wide);
    bool pack(Packed& packed, bool& wide);
    void unpack(const Kinds& kinds, const PackedView& packed, bool wide);
    void copy_from(Window& other);

    const Ref& monoid() const { return monoid_; }
    void visit(void (*visitor)(PyObject*, void*), void* argument) const;
    void clear();

   private:
    using Maker = std::unique_ptr<Engine> (*)(const Recipe&);

    // Marks the window as in use for one call; a callback that uses it then raises.
    class Held {
       public:
        explicit Held(Window& window) : window_(window) {
            if (window.held_)
                fail(ErrorKind::concurrent,
                     "the window is in use by another call; do not use it from its own monoid or times, or from "
                     "another thread.");
            window.held_ = true;
        }
        ~Held() { window_.held_ = false; }
        Held(const Held&) = delete;

       private:
        Window& window_;
    };

    Kinds kinds_of(PyObject* time, PyObject* value) const;
    void require_kinds(const Kinds& kinds, const Column& times, const Column& values) const;
    void require_measurable(const Column& times, const Column& values) const;
    std::unique_ptr<Engine> make(const Kinds& kinds, const char* monoid = nullptr) const;
    std::unique_ptr<Engine> undecided() const;
    template <class Do>
    void change(const Kinds& kinds, Do&& work);
    template <class Do>
    auto in_order(const Kinds& kinds, Do&& work) const -> decltype(work());
    void widen(const Contents& contents);

    Ref monoid_;
    Ref native_;  // the monoid's names in the core, by kind of value
    std::string structure_;
    Maker maker_;
    Options options_;
    Kinds kinds_;
    std::unique_ptr<Engine> engine_;
    uint64_t combines_before_ = 0;  // of engines that were replaced
    uint64_t version_ = 0;
    bool held_ = false;
};

}  // namespace sash
