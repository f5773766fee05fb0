// A reference to a callable, called through a pointer, for functions that must not be templates.
#pragma once

#include <type_traits>
#include <utility>

namespace sash {

template <class Signature>
class FunctionRef;

template <class Result, class... Arguments>
class FunctionRef<Result(Arguments...)> {
   public:
    template <class Callable, class = std::enable_if_t<!std::is_same_v<std::decay_t<Callable>, FunctionRef>>>
    FunctionRef(Callable&& callable)
        : object_(const_cast<void*>(static_cast<const void*>(&callable))), call_([](void* object, Arguments... given) {
              return (*static_cast<std::remove_reference_t<Callable>*>(object))(std::forward<Arguments>(given)...);
          }) {}
    Result operator()(Arguments... given) const { return call_(object_, std::forward<Arguments>(given)...); }

   private:
    void* object_;
    Result (*call_)(void*, Arguments...);
};

}  // namespace sash
