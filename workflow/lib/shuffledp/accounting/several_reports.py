"""One person with several reports in one collection."""

from dataclasses import replace

from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError


def several_reports(setting: Setting, reports: int) -> Setting:
    """Rounds that are at least as bad for a person as several reports in one collection.

    Let the analyst see more: as many histograms as the person has reports, each of one of these and
    of an equal share of all others. They are rounds with ``n // reports`` reports. Their sum is the
    histogram that is released, and more reports in one of them hide no less. So the upper end of
    their privacy holds for the person; the lower end is none.

    Parameters
    ----------
    setting
        One round of it; n counts all reports, those of the person included.
    reports
        Of the person, from 1 to n. Replacing all of them is hidden, not how many they are.

    Raises
    ------
    InputError
        If an argument is out of range.
    """
    setting.require_one_round()
    if not (1 <= reports <= setting.n and reports == int(reports)):
        raise InputError(
            "reports of one person must be a whole number from 1 to n (got "
            f"reports={reports}, n={setting.n})"
        )
    return replace(setting, n=setting.n // int(reports), rounds=int(reports))
