//! The table of sessions stays responsive with 2,000 sessions.

use serde_json::Value;

use super::Stage;
use super::operate::enter;

/// The time limit for a single task of the page, in milliseconds.
const TASK_MS_MAX: f64 = 200.0;
/// The maximum number of table rows that the page contains at one time.
const ROWS_MAX: u64 = 60;

/// A script that scrolls for ten seconds while data arrive, and records the duration of each frame
/// and each long task.
const SCROLL: &str = "
const grid = document.querySelector('.grid');
const tasks = [], frames = [];
const observer = new PerformanceObserver((list) =>
  list.getEntries().forEach((entry) => tasks.push(entry.duration)));
observer.observe({ entryTypes: ['longtask'] });
const fetched = () => performance.getEntriesByType('resource')
  .filter((one) => one.name.endsWith('/api/sessions')).length;
performance.setResourceTimingBufferSize(10000);
const [begin, before] = [performance.now(), fetched()];
let last = begin;
const step = (now) => {
  if (now > last) frames.push(now - last);
  last = now;
  const at = (now - begin) / 10000;
  grid.scrollTop = (grid.scrollHeight - grid.clientHeight) * (0.5 - 0.5 * Math.cos(at * 12));
  if (at < 1) return requestAnimationFrame(step);
  observer.disconnect();
  frames.sort((a, b) => a - b);
  done({ tasks, count: frames.length, p50: frames[Math.floor(frames.length * 0.5)],
    p99: frames[Math.floor(frames.length * 0.99)], max: frames.at(-1), polls: fetched() - before,
    rows: document.querySelectorAll('.grid-body .grid-row').length });
};
requestAnimationFrame(step);";

pub(super) fn sessions(stage: &Stage<'_>) -> Result<String, String> {
    let browser = stage.browser;
    browser.shape(1_200, 900, "light")?;
    enter(stage, "operator", &format!("{}/#/sessions", stage.desk.url))?;
    browser.until("document.querySelector('.count').textContent.includes('2,006 sessions')")?;
    let on = "Number(/([\\d,]+) logged on/.exec(document.querySelector('.count').textContent)[1]\
              .replace(',', ''))";
    browser.until(&format!("{on} > 1700"))?;
    browser.picture("many")?;
    let found = browser.later(SCROLL)?;
    let number = |name: &str| found[name].as_f64().unwrap_or_default();
    let none = Vec::new();
    let tasks = found["tasks"].as_array().unwrap_or(&none).iter().filter_map(Value::as_f64);
    let longest = tasks.clone().fold(0.0, f64::max);
    let said = format!(
        "; {} pictures in 10 s of scrolling with {} answers of the server: median {:.1} ms, p99 \
         {:.1} ms, longest {:.1} ms; {} tasks above 50 ms, the longest {longest:.0} ms; {} rows \
         in the page",
        number("count"),
        number("polls"),
        number("p50"),
        number("p99"),
        number("max"),
        tasks.count(),
        number("rows"),
    );
    if longest > TASK_MS_MAX {
        return Err(format!("the page was busy for too long{said}"));
    }
    if found["rows"].as_u64().is_none_or(|rows| rows > ROWS_MAX) {
        return Err(format!("too many rows are in the page{said}"));
    }
    if number("polls") < 3.0 {
        return Err(format!("the server was not asked meanwhile{said}"));
    }
    // The table reacts at once to text in the filter.
    browser.write("#filter", "firm1999")?;
    browser.until("document.querySelector('.count').textContent.startsWith('1 of 2,006')")?;
    browser.write("#filter", " \u{e003}")?;
    Ok(said)
}
