// Calendar periods: where the day, week, month, quarter or year of an instant begins, and where the next one does.
//
// A zone comes as the seconds at which its offset from UTC changes (sash/keyed/zones.py). A period begins when its
// clock first shows the period's midnight, or jumps over it. Where clocks are put back over midnight, the hour that comes
// twice belongs to the new period, so that periods never go back.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace sash {

enum class Period : uint8_t { day, week, month, quarter, year };

// The seconds at which an offset changes, and the offsets before, between and after them.
struct Zone {
    Zone(std::vector<int64_t> changes, std::vector<int64_t> offsets);
    int64_t latest_local(int64_t second) const;  // the latest that its clock has shown
    int64_t instant_of(int64_t local) const;     // when its clock first showed that, or jumped over it

    std::vector<int64_t> changes, offsets;
    std::vector<int64_t> reached;  // how far the clock had come before each change
};

class Calendar {
   public:
    Calendar(Period period, int64_t ticks_per_second, std::shared_ptr<const Zone> zone)
        : period_(period), ticks_(ticks_per_second), zone_(std::move(zone)) {}

    // About the length of a period, in ticks.
    int64_t about() const {
        constexpr int64_t days[] = {1, 7, 30, 90, 365};
        return days[static_cast<size_t>(period_)] * 86'400 * ticks_;
    }
    int64_t start_of(int64_t time) const { return at_second(time, false); }   // or the first instant of all
    int64_t next_after(int64_t time) const { return at_second(time, true); }  // or the last instant of all

   private:
    int64_t at_second(int64_t time, bool next) const;
    int64_t local_start(int64_t local, bool next) const;

    Period period_;
    int64_t ticks_;
    std::shared_ptr<const Zone> zone_;
};

}  // namespace sash
