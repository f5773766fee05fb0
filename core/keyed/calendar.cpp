#include "keyed/calendar.hpp"

#include <algorithm>

namespace sash {

namespace {

constexpr int64_t kDay = 86'400;
// The Gregorian calendar repeats after 400 years, which are whole weeks; so do the rules of zones in the far future, and
// in the far past nothing changes.
constexpr int64_t kCycle = 146'097 * kDay;
constexpr int64_t kPast = -24'298'876'800;       // the year 1200
constexpr int64_t kFuture = 16'725'225'600;      // the year 2500
constexpr int64_t kRepeated = kFuture - kCycle;  // the year 2100, from where on zones follow their last rule

int64_t floor_of(int64_t number, int64_t step) { return number / step - (number % step < 0); }

// How many cycles a second is away from those years whose rules are known.
int64_t cycles_of(int64_t second) {
    if (second >= kFuture) return (second - kRepeated) / kCycle;
    return second < kPast ? floor_of(second - kPast, kCycle) : 0;
}

// Days since 1970-01-01 of the first day of a month, counted from 0 through all years; after Howard Hinnant's
// days_from_civil: years begin in March, so that a leap day is their last.
int64_t first_day_of(int64_t month) {
    int64_t shifted = month - 2, year = floor_of(shifted, 12), of_year = shifted - year * 12;
    int64_t leaps = floor_of(year, 4) - floor_of(year, 100) + floor_of(year, 400);
    return year * 365 + leaps + (153 * of_year + 2) / 5 - 719'468;
}

int64_t month_of(int64_t day) {
    int64_t guess = floor_of((day + 719'468) * 400, 146'097) * 12 + 2;  // the March of that year, or a year off
    int64_t month = guess + (day - first_day_of(guess)) / 31;
    while (first_day_of(month) > day) --month;
    while (first_day_of(month + 1) <= day) ++month;
    return month;
}

}  // namespace

Zone::Zone(std::vector<int64_t> changes_, std::vector<int64_t> offsets_)
    : changes(std::move(changes_)), offsets(std::move(offsets_)) {
    for (size_t i = 0; i < changes.size(); ++i) {
        int64_t local = changes[i] + offsets[i];
        reached.push_back(i ? std::max(reached.back(), local) : local);
    }
}

int64_t Zone::latest_local(int64_t second) const {
    auto i = static_cast<size_t>(std::upper_bound(changes.begin(), changes.end(), second) - changes.begin());
    int64_t local = second + offsets[i];
    return i ? std::max(local, reached[i - 1] - 1) : local;
}

int64_t Zone::instant_of(int64_t local) const {
    auto i = static_cast<size_t>(std::upper_bound(reached.begin(), reached.end(), local) - reached.begin());
    int64_t second = local - offsets[i];
    return i ? std::max(second, changes[i - 1]) : second;
}

int64_t Calendar::local_start(int64_t local, bool next) const {
    int64_t day = floor_of(local, kDay), more = next;
    if (period_ == Period::day) return (day + more) * kDay;
    if (period_ == Period::week)
        return (floor_of(day + 3, 7) + more) * 7 * kDay - 3 * kDay;  // 1970 began on a Thursday
    int64_t months = period_ == Period::month ? 1 : period_ == Period::quarter ? 3 : 12;
    return first_day_of((floor_of(month_of(day), months) + more) * months) * kDay;
}

int64_t Calendar::at_second(int64_t time, bool next) const {
    int64_t second = floor_of(time, ticks_), cycles = cycles_of(second);
    int64_t local = zone_->latest_local(second - cycles * kCycle);
    auto found =
        static_cast<__int128>(zone_->instant_of(local_start(local, next))) + static_cast<__int128>(cycles) * kCycle;
    found *= ticks_;
    if (found < INT64_MIN) return INT64_MIN;
    return found > INT64_MAX ? INT64_MAX : static_cast<int64_t>(found);
}

}  // namespace sash
