//! Tests schedules by examples, and across every change of clocks.

use jiff::civil::date;
use proptest::prelude::*;

use super::*;

fn moment(text: &str) -> Timestamp {
    Timestamp::parse(text.as_bytes()).unwrap()
}

fn window(days: &str, from: &str, to: &str) -> WindowSettings {
    WindowSettings {
        days: (!days.is_empty()).then(|| days.to_owned()),
        from: Some(from.to_owned()),
        to: Some(to.to_owned()),
        ..WindowSettings::default()
    }
}

fn schedule(zone: &str, windows: Vec<WindowSettings>) -> Result<Schedule, ScheduleError> {
    Schedule::new(&ScheduleSettings { windows, ..ScheduleSettings::in_zone(zone) })
}

/// Returns the next `n` periods after a time, as texts in UTC to the minute.
fn next(schedule: &Schedule, from: &str, n: usize) -> Vec<String> {
    let text = |moment: Timestamp| moment.to_string()[..14].to_owned();
    let intervals = schedule.intervals(moment(from)).take(n);
    intervals.map(|interval| [text(interval.open), text(interval.close)].join(" ")).collect()
}

#[test]
fn days_of_the_week() {
    let s = schedule("Europe/London", vec![window("mon-fri", "08:00", "16:30")]).unwrap();
    let expected = ["20261120-08:00 20261120-16:30", "20261123-08:00 20261123-16:30"];
    assert_eq!(next(&s, "20261120-16:29:59", 2), expected);
    assert_eq!(next(&s, "20261120-16:30:00", 1), expected[1..]);
    assert!(s.at(moment("20261120-08:00:00")).is_some());
    assert_eq!(s.at(moment("20261120-16:30:00")), None);
    assert_eq!(
        s.next(moment("20261120-08:00:00")),
        s.intervals(moment("20261121-00:00:00")).next()
    );
}

#[test]
fn a_zone_may_be_a_distance_from_utc() {
    for (zone, open) in [
        ("+02:00", "20261120-06:00 20261120-14:30"),
        ("-05:30", "20261120-13:30 20261120-22:00"),
        ("+14:00", "20261119-18:00 20261120-02:30"),
        ("+00:00", "20261120-08:00 20261120-16:30"),
    ] {
        let s = schedule(zone, vec![window("fri", "08:00", "16:30")]).unwrap();
        assert_eq!(next(&s, "20261119-12:00:00", 1), [open], "{zone}");
        assert_eq!(s.zone(), zone);
    }
    for zone in ["+2", "+2:00", "+02:60", "+14:01", "+99:00", "+", "-", "+02:0\u{e4}", "++1:00"] {
        let error = schedule(zone, vec![window("", "08:00", "16:30")]).unwrap_err().to_string();
        assert!(error.contains("write for example +02:00"), "{error}");
    }
}

#[test]
fn over_midnight_the_day_is_that_of_the_opening() {
    let s = schedule("UTC", vec![window("sun-thu", "17:00", "16:00")]).unwrap();
    let expected = ["20261119-17:00 20261120-16:00", "20261122-17:00 20261123-16:00"];
    assert_eq!(next(&s, "20261119-18:00:00", 2), expected);
}

#[test]
fn the_same_time_twice_is_a_whole_day_or_week() {
    let s = schedule("UTC", vec![window("", "17:00", "17:00")]).unwrap();
    assert_eq!(next(&s, "20261119-17:00:00", 1), ["20261119-17:00 20261120-17:00"]);
    let s = schedule("UTC", vec![window("", "sun 17:00", "sun 17:00")]).unwrap();
    assert_eq!(next(&s, "20261119-17:00:00", 1), ["20261115-17:00 20261122-17:00"]);
}

#[test]
fn weekly_over_a_change_of_clocks() {
    let s = schedule("America/New_York", vec![window("", "sun 17:00", "fri 17:00")]).unwrap();
    let expected = [
        "20261025-21:00 20261030-21:00",
        // From 1 November 2026 on, the zone is five hours behind UTC instead of four.
        "20261101-22:00 20261106-22:00",
    ];
    assert_eq!(next(&s, "20261026-00:00:00", 2), expected);
}

#[test]
fn a_window_that_begins_in_skipped_time_begins_at_the_change() {
    let s = schedule("America/New_York", vec![window("", "02:30", "03:30")]).unwrap();
    assert_eq!(next(&s, "20270314-00:00:00", 1), ["20270314-07:00 20270314-07:30"]);
    let s = schedule("America/New_York", vec![window("", "02:10", "02:50")]).unwrap();
    assert_eq!(next(&s, "20270314-00:00:00", 1), ["20270315-06:10 20270315-06:50"]);
}

#[test]
fn several_a_day_and_cron() {
    let two = vec![window("", "08:00", "11:30"), window("", "12:30", "15:00")];
    let s = schedule("Asia/Tokyo", two).unwrap();
    let expected = ["20261119-23:00 20261120-02:30", "20261120-03:30 20261120-06:00"];
    assert_eq!(next(&s, "20261120-00:00:00", 2), expected);
    let cron = |open: &str, close: &str| WindowSettings {
        open: Some(open.to_owned()),
        close: Some(close.to_owned()),
        ..WindowSettings::default()
    };
    let s = schedule("UTC", vec![cron("0 8,12 * * mon-fri", "30 11 * * *")]);
    assert!(s.unwrap_err().to_string().contains("overlap"), "the second is open until tomorrow");
    let s = schedule("UTC", vec![cron("0 30 7 ? * MON-FRI", "0 0/30 16-17 ? * *")]).unwrap();
    assert_eq!(next(&s, "20261121-00:00:00", 1), ["20261123-07:30 20261123-16:00"]);
    let s = schedule("UTC", vec![cron("0 0 1 jan *", "0 12 1 1 *")]).unwrap();
    assert_eq!(next(&s, "20261121-00:00:00", 1), ["20270101-00:00 20270101-12:00"]);
    let s = schedule("UTC", vec![cron("0 8 * * sun-tue", "0 9 * * 7,1,2")]).unwrap();
    assert_eq!(next(&s, "20261121-00:00:00", 1), ["20261122-08:00 20261122-09:00"]);
}

#[test]
fn holidays_open_no_window() {
    let file = transfix_testkit::temp::TempDir::new();
    let path = file.path().join("venue.txt");
    std::fs::write(&path, "# our own\n2026-12-25 # Christmas\n\n2026-12-28\n").unwrap();
    let settings = ScheduleSettings {
        windows: vec![window("mon-fri", "08:00", "17:00")],
        holidays: vec!["2026-12-24".into(), path.clone()],
        ..ScheduleSettings::in_zone("UTC")
    };
    let s = Schedule::new(&settings).unwrap();
    let expected = ["20261223-08:00 20261223-17:00", "20261229-08:00 20261229-17:00"];
    assert_eq!(next(&s, "20261223-12:00:00", 2), expected);
    std::fs::write(&path, "2026-02-30\n").unwrap();
    let error = Schedule::new(&settings).unwrap_err().to_string();
    assert!(error.contains("venue.txt:1: `2026-02-30` is not a date"), "{error}");
    let weekly = ScheduleSettings {
        windows: vec![window("", "sun 17:00", "fri 17:00")],
        holidays: vec!["2026-12-24".into()],
        ..ScheduleSettings::in_zone("UTC")
    };
    assert!(Schedule::new(&weekly).unwrap_err().to_string().contains("holidays"));
}

#[test]
fn what_could_mean_two_things_is_refused() {
    let check = |zone: &str, windows: Vec<WindowSettings>, expected: &str| {
        let error = schedule(zone, windows).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("Europe/Londn", vec![window("", "1:00", "02:00")], "did you mean `Europe/London`?");
    check("UTC", vec![window("", "8:00", "17:00")], "`8:00` is not a time");
    check("UTC", vec![window("", "24:00", "17:00")], "`24:00` is not a time");
    check("UTC", vec![window("", "sun 17:00", "17:00")], "write a day in both or in neither");
    check("UTC", vec![window("mon", "sun 17:00", "fri 17:00")], "days cannot be combined with");
    check("UTC", vec![window("mon-fry", "08:00", "17:00")], "`fry` is not a day");
    check("UTC", vec![], "the schedule has no window; write from and to, or windows");
    check("UTC", vec![WindowSettings::default()], "needs both from and to");
    let two = vec![window("", "08:00", "12:00"), window("fri", "11:00", "13:00")];
    check("UTC", two, "two windows overlap: 2024-01-05T08:00:00 to 2024-01-05T12:00:00");
    let cron = |open: &str, close: Option<&str>| {
        vec![WindowSettings {
            open: Some(open.to_owned()),
            close: close.map(str::to_owned),
            ..WindowSettings::default()
        }]
    };
    check("UTC", cron("0 8 * * *", None), "`close` is missing");
    check("UTC", cron("0 8 * *", Some("0 9 * * *")), "has 4 fields");
    check(
        "UTC",
        cron("0 25 * * *", Some("0 9 * * *")),
        "`25` is not a valid cron field from 0 \
        to 23",
    );
    check("UTC", cron("0/4 * * ? * *", Some("2/4 * * ? * *")), "a day has more than 500 windows");
    check("UTC", cron("0 0 8 ? * 2-6", Some("0 9 * * *")), "by name");
    check("UTC", cron("0 8 30 2 *", Some("0 9 * * *")), "the schedule never opens a window");
    let both = ScheduleSettings {
        from: Some("08:00".to_owned()),
        windows: vec![window("", "08:00", "12:00")],
        ..ScheduleSettings::in_zone("UTC")
    };
    assert!(Schedule::new(&both).unwrap_err().to_string().contains("move this window into"));
    let stays = ScheduleSettings {
        windows: vec![window("", "08:00", "12:00")],
        outside: Outside::Reject("closed".to_owned()),
        ..ScheduleSettings::in_zone("UTC")
    };
    assert!(Schedule::new(&stays).unwrap_err().to_string().contains("numbers = \"keep\""));
}

/// Schedules are correct at every change of clocks of every zone in twenty years, with windows that
/// open and close near the change.
#[test]
fn every_change_of_clocks_of_twenty_years() {
    let from = jiff::Timestamp::from_second(1_420_070_400).unwrap();
    let to = jiff::Timestamp::from_second(2_051_222_400).unwrap();
    let mut changes = 0;
    for name in jiff::tz::db().available() {
        let zone = TimeZone::get(name.as_str()).unwrap();
        let moments: Vec<_> = zone.following(from).take_while(|t| t.timestamp() < to).collect();
        for change in moments {
            changes += 1;
            let at = Timestamp(i64::try_from(change.timestamp().as_nanosecond()).unwrap());
            for windows in around(&zone, change.timestamp()) {
                let all = Schedule {
                    zone_name: name.to_string(),
                    zone: zone.clone(),
                    windows,
                    holidays: BTreeSet::new(),
                    numbers: NumbersAtOpening::Restart,
                    outside: Outside::Disconnect,
                };
                check_around(&all, at);
            }
        }
    }
    assert!(changes > 5_000, "{changes} changes");
}

/// Returns windows for three schedules: on an ordinary day, on the day of the change, and in a week
/// that begins at the change.
fn around(zone: &TimeZone, change: jiff::Timestamp) -> [Vec<Window>; 3] {
    let local = zone.to_datetime(change);
    let time = |minutes: i64| (local + jiff::Span::new().minutes(minutes)).time();
    let days = [true; 7];
    let at = jiff::civil::time;
    [
        vec![Window::Days { days, from: at(8, 0, 0, 0), to: at(17, 0, 0, 0) }],
        vec![
            Window::Days { days, from: time(-30), to: time(-10) },
            Window::Days { days, from: time(-10), to: time(35) },
        ],
        vec![Window::Week {
            from: (local.weekday(), local.time()),
            to: (local.weekday().wrapping_add(5), time(-30)),
        }],
    ]
}

fn check_around(schedule: &Schedule, change: Timestamp) {
    const DAY: i64 = 86_400_000_000_000;
    let begin = Timestamp(change.0 - 2 * DAY);
    let all: Vec<_> =
        schedule.intervals(begin).take_while(|one| one.open.0 < change.0 + 2 * DAY).collect();
    assert!(!all.is_empty());
    for pair in all.windows(2) {
        assert!(pair[0].close <= pair[1].open, "{pair:?}");
    }
    for interval in &all {
        assert!(interval.open < interval.close, "{interval:?}");
        for (moment, inside) in [
            (interval.open.0 - 1, all.iter().any(|other| other.close == interval.open)),
            (interval.open.0, true),
            (interval.close.0 - 1, true),
            (interval.close.0, all.iter().any(|other| other.open == interval.close)),
        ] {
            let moment = Timestamp(moment);
            // Times before the first period are not checked, because the test does not know whether
            // a window was open.
            if moment >= begin {
                assert_eq!(schedule.at(moment).is_some(), inside, "{interval:?}");
            }
        }
        // The interval opens at its wall-clock time, or later if that time was skipped.
        let open = schedule.local(interval.open);
        let on_time = schedule
            .windows
            .iter()
            .flat_map(|window| {
                let yesterday = open.date().yesterday().unwrap();
                [window.opening_on(yesterday), window.opening_on(open.date())].concat()
            })
            .any(|(planned, _)| {
                planned == open || schedule.zone.to_ambiguous_timestamp(planned).is_ambiguous()
            });
        let follows = all.iter().any(|other| other.close == interval.open);
        assert!(on_time || follows, "{open} in {}", schedule.zone());
    }
}

proptest! {
    /// In a zone without clock changes, the local time alone determines which windows are open.
    #[test]
    fn the_wall_clock_says_what_is_open(
        day in 0..7_000_i32, minute in 0..1440_i32, from in 0..1440_i32, to in 0..1440_i32,
        weekdays in prop::array::uniform7(any::<bool>()),
    ) {
        let text = |minute: i32| format!("{:02}:{:02}", minute / 60, minute % 60);
        let names: Vec<_> = (0..7).filter(|n| weekdays[*n]).map(|n| window::DAYS[n]).collect();
        prop_assume!(!names.is_empty());
        let s = schedule("Asia/Kolkata", vec![window(&names.join(","), &text(from), &text(to))]);
        let s = s.unwrap();
        let local = date(2015, 1, 1).checked_add(days(i64::from(day))).unwrap();
        let is_open = |day: Date| {
            weekdays[day.weekday().to_monday_zero_offset().unsigned_abs() as usize]
        };
        let yesterday = is_open(local.yesterday().unwrap()) && to <= from && minute < to;
        let today = is_open(local) && minute >= from && (to <= from || minute < to);
        let clock = local.at((minute / 60) as i8, (minute % 60) as i8, 0, 0);
        prop_assert_eq!(s.at(s.moment(clock).unwrap()).is_some(), yesterday || today);
    }
}
