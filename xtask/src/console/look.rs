//! Tests of the pages that an operator reads (messages, orders, events, audit), and of the
//! appearance of all pages.

use super::Stage;
use super::operate::{enter, of_session};

type Checked = Result<String, String>;

const GOOD: Checked = Ok(String::new());

pub(super) fn messages(stage: &Stage<'_>) -> Checked {
    let browser = stage.browser;
    enter(stage, "viewer", &of_session(stage, "LINE", "/messages"))?;
    for mark in ["resent (43=Y)", "✕ rejects number 7", "✕ rejects number 8", "gap: asks for 3"]
    {
        let has = format!(
            "[...document.querySelectorAll('.mark')].some((one) => \
                           one.textContent.startsWith('{mark}'))"
        );
        browser.until(&has)?;
    }
    browser.text("7 not kept")?;
    browser.picture("messages")?;
    // The page shows the messages in the order of arrival.
    browser.open(&of_session(stage, "FIRM0001", "/messages"))?;
    browser.until("document.querySelectorAll('tr.message').length > 4")?;
    let newest = "document.querySelector('tr.message').textContent";
    browser.run(&format!("window.newest = {newest}"))?;
    browser.until(&format!("{newest} !== window.newest"))?;
    // The search finds messages by each of the fields.
    let only = |wanted: &str| {
        let all = "[...document.querySelectorAll('tr.message')]";
        browser.until(&format!("{all}.length > 0 && {all}.every((row) => {wanted})"))
    };
    browser.write("[name=msg_type]", "8")?;
    browser.choose("[name=direction]", "out")?;
    browser.press("Search")?;
    only("row.textContent.includes('ExecutionReport(8)') && row.className.includes('out')")?;
    browser.write("[name=msg_type]", "")?;
    browser.choose("[name=direction]", "")?;
    browser.write("[name=seq_from]", "2")?;
    browser.write("[name=seq_to]", "3")?;
    browser.press("Search")?;
    only("['2', '3'].includes(row.children[2].textContent)")?;
    browser.write("[name=field]", "nonsense")?;
    browser.press("Search")?;
    browser.text("Tag=value is such as 55=EUR/USD")?;
    browser.write("[name=field]", "35=D")?;
    browser.write("[name=text]", "for the desk")?;
    browser.press("Search")?;
    only("row.textContent.includes('NewOrderSingle(D)')")?;
    // A click on a message shows its fields, including the group.
    browser.click("tr.message")?;
    browser.until(
        "document.querySelector('.one-message .tree').innerText.includes('NoPartyIDs (2)')",
    )?;
    browser.until("document.querySelector('.one-message .raw').innerText.includes('448=DESK7')")?;
    browser.picture("message")?;
    browser.press("Close")?;
    // The page reports that the session LINE has no store.
    browser.open(&of_session(stage, "LINE", "/messages?order=NONE"))?;
    browser.text("0 messages")?;
    GOOD
}

pub(super) fn order(stage: &Stage<'_>) -> Checked {
    let browser = stage.browser;
    enter(stage, "viewer", &of_session(stage, "FIRM0001", "/messages?msg_type=G"))?;
    browser.click("tr.message")?;
    browser.press("Life of the order by ClOrdID(11)")?;
    browser.text("Life of order")?;
    browser.until("document.querySelectorAll('tr.message').length === 6")?;
    for part in [
        "NewOrderSingle(D)",
        "OrderCancelReplaceRequest(G)",
        "OrderCancelRequest(F)",
        "OrdStatus(39) new",
        "OrdStatus(39) replaced",
        "OrdStatus(39) cancelled",
    ] {
        browser.text(part)?;
    }
    browser.picture("order")?;
    GOOD
}

pub(super) fn events(stage: &Stage<'_>) -> Checked {
    let browser = stage.browser;
    enter(stage, "operator", &of_session(stage, "FIRM0004", ""))?;
    browser.click(".tabs a:last-child")?;
    browser.until("document.querySelector('#event-session').value.includes('FIRM0004')")?;
    browser.until("document.querySelectorAll('.events li').length > 0")?;
    // The page shows an event that arrives while the page is open.
    browser.run(
        "window.asked = (async () => {
           const me = await (await fetch('/api/me')).json();
           await fetch('/api/sessions/FIX.4.4%3AVENUE-%3EFIRM0004/actions', { method: 'POST',
             headers: { 'Content-Type': 'application/json', 'X-CSRF-Token': me.csrf },
             body: '{\"action\":\"heartbeat\"}' });
         })()",
    )?;
    browser.until("document.querySelector('.events li').textContent.includes('operated')")?;
    browser.until("document.querySelector('.events li').textContent.includes('what=heartbeat')")?;
    // The details below an event are the output of `transfix codes`.
    browser.until(
        "document.querySelector('.events .remedy').textContent.startsWith('2704 Operated')",
    )?;
    browser.write("#event-session", "LOCKED")?;
    browser.choose(".tools select", "WARN")?;
    browser.until(
        "[...document.querySelectorAll('.events li')].every((one) => \
         one.textContent.includes('LOCKED') && one.textContent.includes('⚠ warning')) && \
         document.querySelectorAll('.events li').length > 0",
    )?;
    browser.picture("events")?;
    GOOD
}

pub(super) fn others(stage: &Stage<'_>) -> Checked {
    let browser = stage.browser;
    let page = |name: &str| browser.open(&format!("{}/#/{name}", stage.desk.url));
    enter(stage, "operator", &of_session(stage, "FIRM0006", ""))?;
    browser.press("Log out …")?;
    browser.write("dialog input[name=text]", "seen in the audit")?;
    browser.press("Log out")?;
    browser.text("Done: Log out")?;
    browser.press("Log on")?;
    page("audit")?;
    browser.text("log_out text=seen in the audit")?;
    browser.text("state=Active")?;
    browser.write(".tools input", "seen in the audit")?;
    browser.until("document.querySelector('.count').textContent === '1 action'")?;
    page("settings")?;
    browser.text("audit_file")?;
    browser.write("input[list]", "FIX.4.4:VENUE->LOCKED\u{e007}")?;
    browser.text("expected_password")?;
    let secret = browser.run("return document.body.innerText.includes('sesame')")?;
    if secret.as_bool() != Some(false) {
        return Err("the settings show a password".to_owned());
    }
    page("certificates")?;
    browser.text("CN=localhost")?;
    browser.text("d left")?;
    page("engine")?;
    browser.text("Version")?;
    browser.press("Fleet")?;
    browser.text("3 gateways answer")?;
    browser.text("⚠ drained")?;
    browser.write(".tools input", "gw2 disconnected")?;
    browser.text("1 of 39 sessions")?;
    GOOD
}

/// Checks all pages in wide and narrow windows, in light and dark colors: nothing is cut off, and
/// each control has a name.
pub(super) fn pictures(stage: &Stage<'_>) -> Checked {
    let browser = stage.browser;
    enter(stage, "administrator", &of_session(stage, "FIRM0002", ""))?;
    // The action adds a line to the audit page.
    browser.press("Send Heartbeat(0)")?;
    browser.text("Done: Send Heartbeat(0)")?;
    let base = &stage.desk.url;
    let pages = [
        ("sessions", format!("{base}/#/sessions"), "document.querySelector('.grid-row .upper')"),
        ("session", of_session(stage, "FIRM0001", ""), "document.querySelector('.side td + td')"),
        ("session-problem", of_session(stage, "LEFT", ""), "document.querySelector('.mark.bad')"),
        ("messages", of_session(stage, "LINE", "/messages"), "document.querySelector('.mark.bad')"),
        ("events", format!("{base}/#/events"), "document.querySelector('.events li')"),
        ("audit", format!("{base}/#/audit"), "document.querySelector('td')"),
        ("settings", format!("{base}/#/settings"), "document.querySelector('td')"),
        ("certificates", format!("{base}/#/certificates"), "document.querySelector('td')"),
        ("fleet", format!("{base}/#/fleet"), "document.querySelector('td')"),
        ("engine", format!("{base}/#/engine"), "document.querySelector('.health .mark')"),
    ];
    for (width, height) in [(1_200, 900), (600, 450), (400, 800)] {
        for colours in ["light", "dark"] {
            browser.shape(width, height, colours)?;
            for (name, url, ready) in &pages {
                browser.open(url)?;
                browser.until(ready)?;
                // After the wait, the page shows rates and curves.
                browser.later("setTimeout(done, 1500)")?;
                browser.picture(&format!("{name}-{width}-{colours}"))?;
                check(stage, &format!("{name} at {width}"))?;
            }
        }
    }
    browser.shape(1_200, 900, "light")?;
    GOOD
}

/// Checks that the page fits into the window, and that each control has an accessible name.
fn check(stage: &Stage<'_>, place: &str) -> Result<(), String> {
    let browser = stage.browser;
    let wide = browser.run(
        "const page = document.scrollingElement; return page.scrollWidth - page.clientWidth",
    )?;
    if wide.as_i64() != Some(0) {
        return Err(format!("{place}: the page is {wide} px wider than the window"));
    }
    let nameless = browser.run(
        "return [...document.querySelectorAll('input, select, button, a')].filter((one) => \
         !one.labels?.length && !one.ariaLabel && !one.textContent.trim()) \
         .map((one) => one.outerHTML).join()",
    )?;
    match nameless.as_str() {
        Some("") => Ok(()),
        _ => Err(format!("{place}: controls without a name: {nameless}")),
    }
}
