//! Tests the administration over FIX with real sessions while two engines trade.

use std::net::SocketAddr;
use std::time::Duration;

use transfix::{
    Action, BeginString, Engine, FixAdminSettings, Role, Secret, SessionId, SessionSettings,
    Settings,
};
use transfix_admin::client::{FixClient, FixLogin};
use transfix_admin::{AdminServer, Extras, OwnCommands};

use crate::access::refusals_of;
use crate::http::LONG;
use crate::market::{Market, PASSWORD, until, users};

/// SenderCompID and TargetCompID of the venue's session.
const SESSION: &str = "<SenderCompID>VENUE</SenderCompID><TargetCompID>CLIENT</TargetCompID>";

pub(crate) fn market() -> Market {
    market_with(|_| ())
}

pub(crate) fn market_with(change: impl FnOnce(&mut FixAdminSettings)) -> Market {
    Market::with(|admin, _| {
        let address = "127.0.0.1:0".to_owned();
        let mut fix = FixAdminSettings { address, ..FixAdminSettings::default() };
        change(&mut fix);
        admin.fix = Some(fix);
    })
}

pub(crate) fn address(market: &Market) -> SocketAddr {
    market.server.fix_address().unwrap()
}

pub(crate) fn login(market: &Market, role: &str) -> FixLogin {
    let password = Secret::new(PASSWORD.to_owned());
    FixLogin::new(address(market).to_string(), format!("{role}-person"), password)
}

/// A logged-on administrator.
pub(crate) struct Who(FixClient);

impl Who {
    #[track_caller]
    pub(crate) fn of(market: &Market, role: &str) -> Self {
        Self(FixClient::log_on(&login(market, role)).unwrap())
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, xml: &str) -> String {
        self.0.ask(xml, LONG).unwrap()
    }

    /// Sends the command `xml`, and checks that the answer has the result code `code` and contains
    /// `words`.
    #[track_caller]
    fn gets(&mut self, xml: &str, code: u8, words: &str) -> String {
        let answer = self.ask(xml);
        let begin = format!("<Response ResultCode=\"{code}\"");
        assert!(answer.starts_with(&begin) && answer.contains(words), "{xml}: {answer}");
        answer
    }

    /// Sends a command for the venue's session; checks the answer like `gets`.
    #[track_caller]
    fn of_session(&mut self, name: &str, more: &str, code: u8, words: &str) -> String {
        self.gets(&format!("<{name}>{SESSION}{more}</{name}>"), code, words)
    }
}

#[test]
fn an_administrator_lists_the_sessions() {
    let market = market();
    market.trade(3);
    let mut viewer = Who::of(&market, "viewer");
    let all = viewer.gets("<SessionsList RequestID=\"7\"/>", 0, "RequestID=\"7\"");
    for part in [
        "<SessionsListData><Session><SenderCompID>VENUE</SenderCompID>",
        "<Action>NEW</Action><Status>CONNECTED</Status><StatusGroup>ESTABLISHED</StatusGroup>",
    ] {
        assert!(all.contains(part), "{all}");
    }
    assert!(!all.contains("FIXADMIN"), "administrators are none of the engine's sessions");
    let snapshot = viewer.gets(
        "<SessionsSnapshot><View>STATUS_PARAMS_STAT</View></SessionsSnapshot>",
        0,
        "<StatData>",
    );
    for part in [
        "<Version>FIX44</Version><Role>ACCEPTOR</Role><RemoteHost>127.0.0.1</RemoteHost>",
        "<StorageType>PERSISTENT</StorageType>",
        "<InSeqNum>4</InSeqNum><OutSeqNum>4</OutSeqNum></StatusData>",
        "<InSeqNum>5</InSeqNum><OutSeqNum>5</OutSeqNum>",
        "<ReceivedMessages>4</ReceivedMessages><SentMessages>4</SentMessages>",
    ] {
        assert!(snapshot.contains(part), "{part}: {snapshot}");
    }
    let short = "<SessionsSnapshot><View>STATUS_PARAMS</View><SessionView>SESSION<View>STATUS\
                 </View></SessionView></SessionsSnapshot>";
    let short = viewer.gets(&short.replace("SESSION<", &format!("{SESSION}<")), 0, "<StatusData>");
    assert!(!short.contains("ParamsData"), "{short}");
    viewer.of_session("SessionStatus", "", 0, "<Status>CONNECTED</Status>");
    viewer.of_session("SessionParams", "", 0, "<ExtraSessionParams><HBI>12</HBI>");
    viewer.of_session("SessionStat", "", 0, "<Established>2");
    viewer.gets("<GeneralSessionsStat/>", 0, "<ActiveSessions>1</ActiveSessions>");
    viewer.gets("<ReceivedStat/>", 0, "<ReceivedMessages>4</ReceivedMessages>");
    viewer.of_session("SentStat", "", 0, "<SentMessages>4</SentMessages>");
    viewer.gets("<ProceedStat/>", 0, "<ProceedMessages>8</ProceedMessages>");
    viewer.gets("<GetFIXProtocolsList/>", 0, "<Version>FIX50SP2</Version>");
    let help = viewer.gets("<Help/>", 0, "<FIXAdminProtocolVersion>");
    assert!(help.contains("<SupportedRequest><ChangeSeqNum><Description>"), "{help}");
}

#[test]
fn each_command_does_what_it_says_and_is_written_down() {
    let market = market();
    let mut one = Who::of(&market, "administrator");
    let session = market.venue.sessions().next().unwrap();
    let client = market.client.sessions().next().unwrap();
    one.of_session("Heartbeat", "", 0, "<Description>Heartbeat completed</Description>");
    one.of_session("TestRequest", "<TestReqID>up?</TestReqID>", 0, "TestRequest completed");
    let message = "<Message>35=B|148=hello|33=1|58=x|</Message>";
    let before = client.next_numbers().0;
    one.of_session("SendMessage", message, 0, "SendMessage completed");
    until(|| client.next_numbers().0 > before);
    one.of_session("ResetSeqNum", "", 0, "ResetSeqNum completed");
    until(|| session.next_numbers().0 < 4);
    let stop = "<SendLogout>true</SendLogout><LogoutReason>lunch</LogoutReason>";
    one.of_session("StopSession", stop, 0, "StopSession completed");
    until(|| client.status().last_end.is_some_and(|end| end.text == "lunch"));
    until(|| one.ask(&format!("<SessionStatus>{SESSION}</SessionStatus>")).contains("STOPPED"));
    let numbers = "<InSeqNum>100</InSeqNum><OutSeqNum>200</OutSeqNum>";
    one.of_session("ChangeSeqNum", numbers, 0, "ChangeSeqNum completed");
    assert_eq!(session.next_numbers(), (100, 200));
    one.of_session("ResetSeqNum", "", 0, "completed");
    one.of_session("StartSession", "", 0, "StartSession completed");
    client.operate(&Action::LogOn {}).unwrap();
    until(|| session.is_logged_on());
    one.of_session("StopSession", "", 0, "StopSession completed");
    until(|| !session.is_logged_on());
    let audit = market.viewer().get("/api/audit?limit=200").good();
    let lines = audit["lines"].as_array().unwrap();
    let has = |what: &str| {
        lines.iter().any(|line| {
            let is_here = line["from"].as_str().is_some_and(|from| from.starts_with("fix 127.0"));
            line["who"] == "administrator-person" && line["what"] == what && is_here
        })
    };
    for what in ["heartbeat", "test_request id=up?", "log_out text=lunch", "disconnect"] {
        assert!(has(what), "{what}: {lines:?}");
    }
    assert!(has("set_numbers next_in=100 next_out=200"), "{lines:?}");
    assert!(has("send 35=B|148=hello|33=1|58=x"), "{lines:?}");
}

#[test]
fn what_is_wrong_is_told_with_its_code_and_the_session_goes_on() {
    let market = market();
    let mut one = Who::of(&market, "administrator");
    let bomb = "<!DOCTYPE a [<!ENTITY b 'x'>]><Help>&b;</Help>";
    let long = format!("<Help>{}</Help>", " ".repeat(1 << 20));
    let deep = "<Help>".repeat(500) + &"</Help>".repeat(500);
    for (xml, words) in [
        ("x", "the XML is not valid"),
        ("<Help>", "the XML is not valid"),
        (bomb, "DTD"),
        (&*long, "at most 65536 are accepted"),
        (&*deep, "deeper than 16 elements"),
        ("<Help RequestID=\"x\"/>", "RequestID must be a whole number"),
        ("<Help><Me/></Help>", "Help has no parameter Me; the accepted parameters are: ToAgent"),
        ("<SessionStatus/>", "SessionStatus needs the parameter SenderCompID"),
        ("<SessionsSnapshot/>", "needs the parameter View"),
        ("<SessionsSnapshot><View>ALL</View></SessionsSnapshot>", "not `ALL`"),
        (
            "<SessionsList><SubscriptionRequestType>4</SubscriptionRequestType></SessionsList>",
            "not `4`",
        ),
        ("<DeleteAll><Exclude>ME</Exclude></DeleteAll>", "not `ME`"),
    ] {
        one.gets(xml, 9, words);
    }
    for (name, more, words) in [
        ("ChangeSeqNum", "", "needs the parameter InSeqNum or OutSeqNum"),
        ("ChangeSeqNum", "<InSeqNum>0</InSeqNum>", "a whole number above 0, not `0`"),
        ("ChangeSeqNum", "<InSeqNum>-1</InSeqNum>", "not `-1`"),
        ("ChangeSeqNum", "<InSeqNum>1</InSeqNum><InSeqNum>2</InSeqNum>", "stands there twice"),
        ("TestRequest", "", "needs the parameter TestReqID"),
        ("StopSession", "<SendLogout>yes</SendLogout>", "`true` or `false`, not `yes`"),
        ("SendMessage", "<Message>!</Message>", "must be Base64"),
        ("SessionStatus", "<Version>FIX45</Version>", "Version must be one of FIX40"),
        ("CreateInitiator", "", "CreateInitiator needs the parameter RemoteHost"),
    ] {
        one.of_session(name, more, 9, words);
    }
    let nobody = "<SenderCompID>A</SenderCompID><TargetCompID>B</TargetCompID>";
    for name in ["SessionStatus", "Heartbeat", "StopSession", "Delete", "ToBackup", "SentStat"] {
        let xml = format!("<{name}>{nobody}</{name}>");
        one.gets(&xml, 3, "there is no session with SenderCompID A");
    }
    one.of_session("SessionStatus", "<Version>FIX42</Version>", 3, "there is no session");
    one.gets("<SessionLog/>", 1, "SessionLog is not implemented");
    one.gets("<Sing/>", 1, "there is no command Sing; the command Help lists all commands");
    one.gets("<ReloadConfig/>", 1, "does not accept such requests (1403)");
    one.gets("<DeleteAll/>", 1, "does not accept such requests (1403)");
    one.of_session("ToBackup", "", 7, "(1");
    let off = "<SessionsList><SubscriptionRequestType>2</SubscriptionRequestType></SessionsList>";
    one.gets(off, 7, "this connection has no subscription to end");
    one.gets("<Help/>", 0, "HelpData");
}

#[test]
fn each_role_may_what_it_may() {
    let market = market();
    let mut all = ["viewer", "operator", "administrator"].map(|role| Who::of(&market, role));
    for (n, who) in all.iter_mut().enumerate() {
        let mut may = |name: &str, more: &str, at_least: usize, role: &str| {
            let refusal = format!("may not do this: {name} needs the role {role}");
            let (code, words) = if n >= at_least { (0, "completed") } else { (7, &*refusal) };
            who.of_session(name, more, code, words);
        };
        may("Heartbeat", "", 1, "operator");
        may("StartSession", "", 1, "operator");
        may("ChangeSeqNum", "<OutSeqNum>77</OutSeqNum>", 2, "administrator");
        let code = if n == 2 { 1 } else { 7 };
        who.gets("<StopServer/>", code, "");
    }
}

#[test]
fn who_has_the_wrong_password_waits_longer_and_longer() {
    let market = market();
    let mut login = login(&market, "viewer");
    login.password = Secret::new("wrong password".to_owned());
    for _ in 0..3 {
        let why = FixClient::log_on(&login).unwrap_err();
        assert!(why.contains("the user name or the password is wrong"), "{why}");
    }
    let why = FixClient::log_on(&login).unwrap_err();
    assert!(why.contains("too many wrong passwords; try again in"), "{why}");
    // HTTP uses the same users file and counts the same failures, so a login in the browser is
    // delayed too.
    let body = format!("{{\"name\":\"viewer-person\",\"password\":\"{PASSWORD}\"}}");
    market.stranger().post("/api/login", &body).refused(429);
}

#[test]
fn who_was_removed_is_out() {
    let market = market();
    let mut one = Who::of(&market, "operator");
    one.gets("<Help/>", 0, "");
    let path = market.dir.path().join("users.toml");
    let mut users = transfix_admin::users::Users::load(&path).unwrap();
    users.remove("operator-person");
    users.save(&path).unwrap();
    one.gets("<Help/>", 7, "your user was removed or may no longer log on");
    let why = one.0.ask("<Help/>", LONG).unwrap_err();
    let words = ["your user was removed or may no longer log on", "not logged on", "logging out"];
    assert!(words.iter().any(|words| why.contains(words)), "{why}");
}

#[test]
fn a_user_comes_from_where_it_may() {
    let market = market();
    let path = market.dir.path().join("users.toml");
    let mut users = transfix_admin::users::Users::load(&path).unwrap();
    for user in &mut users.users {
        let is_operator = user.name == "operator-person";
        let from = if is_operator { "127.0.0.0/8" } else { "192.0.2.0/24" };
        user.allow_from = vec![from.to_owned()];
    }
    users.save(&path).unwrap();
    Who::of(&market, "operator").gets("<Help/>", 0, "");
    let why = FixClient::log_on(&login(&market, "viewer")).unwrap_err();
    assert!(why.contains("the user name or the password is wrong"), "{why}");
    let body = format!("{{\"name\":\"viewer-person\",\"password\":\"{PASSWORD}\"}}");
    market.stranger().post("/api/login", &body).refused(401);
}

#[test]
fn who_has_subscribed_hears_what_becomes_of_sessions() {
    let market = market();
    let (mut one, mut other) = (Who::of(&market, "operator"), Who::of(&market, "administrator"));
    let list = |kind: u8| {
        format!(
            "<SessionsList RequestID=\"5\"><SubscriptionRequestType>{kind}\
             </SubscriptionRequestType></SessionsList>"
        )
    };
    one.gets(&list(1), 0, "<Action>NEW</Action>");
    // A new subscription replaces the previous one, so changes are not sent several times.
    for _ in 0..50 {
        one.gets(&list(3), 0, "SessionsList completed");
    }
    other.of_session("StopSession", "<SendLogout>true</SendLogout>", 0, "completed");
    let mut heard = String::new();
    while !heard.contains("<Status>STOPPED</Status>") {
        heard = one.0.next(LONG).unwrap().expect("it is told");
        assert!(heard.contains("RequestID=\"5\"") && heard.contains("<Action>UPDATED"), "{heard}");
    }
    one.gets(&list(2), 0, "SessionsList completed");
    one.gets(&list(2), 7, "this connection has no subscription to end");
    other.of_session("StartSession", "", 0, "completed");
    assert_eq!(one.0.next(Duration::from_secs(1)).unwrap(), None);
}

#[test]
fn sessions_are_made_and_forgotten_by_the_program() {
    let mut market = market();
    let (to, requests) = std::sync::mpsc::channel();
    market.venue.admin().take_requests(move |request| to.send(request).unwrap());
    let listening = market.venue.listening()[0];
    let mut one = Who::of(&market, "administrator");
    std::thread::scope(|scope| {
        let venue = &mut market.venue;
        // The thread ends when no more requests come, so that a failing test does not wait for it.
        let program = scope.spawn(move || {
            let wait = || requests.recv_timeout(LONG).ok();
            for request in std::iter::from_fn(wait).take(5) {
                let done = match &request.action {
                    transfix::EngineAction::Add(settings) => venue
                        .add(settings, Box::new(Deaf))
                        .map(|_| "added".to_owned())
                        .map_err(|error| error.to_string()),
                    transfix::EngineAction::Remove { id, text } => venue
                        .remove(id, text, Duration::from_secs(5))
                        .map(|_| "removed".to_owned())
                        .map_err(|error| error.to_string()),
                    _ => Err("not today".to_owned()),
                };
                request.answer(done);
            }
        });
        let new = "<SenderCompID>VENUE</SenderCompID><TargetCompID>NEW</TargetCompID>";
        let extra = "<ExtraSessionParams><HBI>7</HBI><StorageType>TRANSIENT</StorageType>\
                     <InSeqNum>5</InSeqNum><SocketOpPriority>EVEN</SocketOpPriority>\
                     </ExtraSessionParams>";
        let make = |extra: &str| {
            format!("<CreateAcceptor>{new}<Version>FIX44</Version>{extra}</CreateAcceptor>")
        };
        one.gets(
            &make(extra),
            0,
            "completed; parameters without an equivalent were ignored: \
                                   SocketOpPriority; added<",
        );
        one.gets(&make(extra), 7, "(1405)");
        let shown = one.gets(&format!("<SessionParams>{new}</SessionParams>"), 0, "<HBI>7</HBI>");
        assert!(shown.contains("TRANSIENT") && shown.contains("<InSeqNum>5</InSeqNum>"), "{shown}");
        let wrong = "<ExtraSessionParams><CustomLogon>eA==</CustomLogon></ExtraSessionParams>";
        one.gets(&make(wrong), 9, "the parameter CustomLogon is unknown; remove it");
        let initiator = format!(
            "<CreateInitiator><SenderCompID>MINE</SenderCompID><TargetCompID>VENUE</TargetCompID>\
             <Version>FIX44</Version><RemoteHost>127.0.0.1</RemoteHost><RemotePort>{}</RemotePort>\
             <ExtraSessionParams><StorageType>TRANSIENT</StorageType></ExtraSessionParams><Backup>\
             <RemoteHost>::1</RemoteHost><RemotePort>1</RemotePort></Backup></CreateInitiator>",
            listening.port()
        );
        one.gets(&initiator, 0, "CreateInitiator completed: added");
        let mine = "<SenderCompID>MINE</SenderCompID><TargetCompID>VENUE</TargetCompID>";
        let shown = one.gets(&format!("<SessionParams>{mine}</SessionParams>"), 0, "INITIATOR");
        assert!(shown.contains("<Backup><RemoteHost>::1</RemoteHost>"), "{shown}");
        one.gets(&format!("<ToBackup>{mine}</ToBackup>"), 0, "ToBackup completed");
        one.gets(&format!("<ToPrimary>{mine}</ToPrimary>"), 0, "ToPrimary completed");
        one.gets(&format!("<Delete>{mine}</Delete>"), 0, "Delete completed: removed");
        one.gets(&format!("<SessionStatus>{mine}</SessionStatus>"), 3, "no session");
        one.gets(&format!("<Delete>{new}</Delete>"), 0, "Delete completed: removed");
        program.join().unwrap();
    });
}

/// If two requests wait for a program that does not answer, a third is refused, and all other
/// commands work.
#[test]
fn who_waits_for_the_program_holds_up_nobody_else() {
    let market = market();
    let (to, requests) = std::sync::mpsc::channel();
    market.venue.admin().take_requests(move |request| to.send(request).unwrap());
    let of = |name: &str| {
        let mut login = login(&market, "administrator");
        login.sender_comp_id = name.to_owned();
        Who(FixClient::log_on(&login).unwrap())
    };
    std::thread::scope(|scope| {
        let waiting = ["one", "two"].map(|name| {
            let mut who = of(name);
            scope.spawn(move || who.gets("<ReloadConfig/>", 0, "done"))
        });
        let asked = [(); 2].map(|()| requests.recv_timeout(LONG).unwrap());
        let mut three = of("three");
        three.gets("<ReloadConfig/>", 7, "the program is still handling another request");
        three.gets("<Help/>", 0, "HelpData");
        market.administrator().post("/api/engine/reload", "").refused(503);
        asked.into_iter().for_each(|request| request.answer(Ok("done".to_owned())));
        waiting.into_iter().for_each(|one| drop(one.join().unwrap()));
    });
}

struct Deaf;

impl transfix::Application for Deaf {
    fn on_message(
        &mut self,
        _: &transfix::Message<'_>,
        _: &mut transfix::SessionRef<'_>,
    ) -> Result<(), transfix::BusinessReject> {
        Ok(())
    }
}

#[test]
fn its_name_and_version_are_those_of_the_settings() {
    for version in [BeginString::Fix43, BeginString::Fixt11] {
        let market = market_with(|fix| {
            fix.sender_comp_id = "DESK-OF-THE-NIGHT".to_owned();
            fix.begin_string = version;
        });
        let mut login = login(&market, "viewer");
        login.begin_string = version;
        login.target_comp_id = "DESK-OF-THE-NIGHT".to_owned();
        Who(FixClient::log_on(&login).unwrap()).gets("<Help/>", 0, "HelpData");
    }
}

#[test]
fn who_comes_from_elsewhere_finds_nobody() {
    let market = market_with(|fix| fix.allow_from = vec!["192.0.2.0/24".to_owned()]);
    FixClient::log_on(&login(&market, "viewer")).unwrap_err();
}

#[test]
fn more_administrators_than_may_be_are_refused() {
    let market = market_with(|fix| fix.sessions_max = 1);
    let mut login = login(&market, "viewer");
    let mut first = Who(FixClient::log_on(&login).unwrap());
    login.sender_comp_id = "another".to_owned();
    FixClient::log_on(&login).unwrap_err();
    first.gets("<Help/>", 0, "HelpData");
    drop(first);
    // When the first connection has ended, another administrator can log on.
    until(|| FixClient::log_on(&login).is_ok());
}

#[test]
fn it_does_not_start_where_it_would_not_be_safe() {
    let market = market();
    let (users_file, _) = users(market.dir.path());
    let fix = FixAdminSettings { address: "0.0.0.0:0".into(), ..FixAdminSettings::default() };
    let admin = transfix::AdminSettings {
        address: "127.0.0.1:0".to_owned(),
        users_file,
        fix: Some(fix),
        ..transfix::AdminSettings::default()
    };
    let started = AdminServer::start(&admin, &market.venue.admin(), Extras::default());
    let why = started.unwrap_err().to_string();
    assert!(why.contains("set certificate and key of [admin]"), "{why}");
    let wrong = |text: &str| {
        let session = "[[session]]\nrole='acceptor'\nbegin_string='FIX.4.4'\nsender_comp_id='A'\n\
                       target_comp_id='B'\naddress='127.0.0.1:0'\n";
        let text = format!("[admin]\n[admin.fix]\n{text}\n{session}");
        Settings::parse("x.toml", &text).unwrap_err().to_string()
    };
    for (text, expected) in [
        ("address = '10.1.1.1:9891'", "of [admin.fix] is reachable from other machines"),
        ("begin_string = 'FIX.4.2'", "begin_string of [admin.fix] must be FIX.4.3"),
        ("allow_from = ['x']", "allow_from of [admin.fix]: `x` is neither"),
        ("sessions_max = 0", "sessions_max"),
        ("sender_comp_id = '*'", "sender_comp_id of [admin.fix] must be a name"),
        ("port = 1", "unknown key `port`"),
    ] {
        let why = wrong(text);
        assert!(why.contains(expected), "{text}: {why}");
    }
}

#[test]
fn commands_of_the_program_are_beside_the_others() {
    let dir = transfix_testkit::temp::TempDir::new();
    let (users_file, _) = users(dir.path());
    let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
    let mut session = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
    session.store.durability = transfix::Durability::Memory;
    let venue = Engine::start(&Settings::of(session), |_| Box::new(Deaf)).unwrap();
    let fix = FixAdminSettings { address: "127.0.0.1:0".into(), ..FixAdminSettings::default() };
    let admin = transfix::AdminSettings {
        address: "127.0.0.1:0".to_owned(),
        users_file,
        fix: Some(fix),
        ..transfix::AdminSettings::default()
    };
    let mut extras = Extras::default();
    extras.own_commands = own();
    let server = AdminServer::start(&admin, &venue.admin(), extras).unwrap();
    let address = server.fix_address().unwrap().to_string();
    let log_on = |role: &str| {
        let password = Secret::new(PASSWORD.to_owned());
        Who(FixClient::log_on(&FixLogin::new(&*address, format!("{role}-person"), password))
            .unwrap())
    };
    let (mut viewer, mut operator) = (log_on("viewer"), log_on("operator"));
    viewer.gets("<Count RequestID=\"3\"/>", 0, "<CountData><Sessions>1</Sessions></CountData>");
    viewer.gets("<Shout>hey</Shout>", 7, "Shout needs the role operator");
    operator.gets("<Shout>hey</Shout>", 0, "<Description>operator-person: &lt;Shout&gt;hey");
    operator.gets("<Shout/>", 9, "nothing to shout");
    operator.gets("<Panic/>", 6, "Panic failed; the log has the details");
    operator.gets("<Broken/>", 6, "Broken failed");
    viewer.gets("<Help/>", 0, "<SupportedRequest><Count><Description>Counts</Description>");
}

fn own() -> OwnCommands {
    use transfix_admin::users::Role;
    use transfix_admin::{CommandResult, OwnRequest, Refused};
    let mut own = OwnCommands::default();
    own.add("Count", Role::Viewer, "Counts", |request: &OwnRequest<'_>| {
        let count = request.admin.sessions().len();
        Ok(CommandResult::data(format!("<CountData><Sessions>{count}</Sessions></CountData>")))
    });
    own.add("Shout", Role::Operator, "Shouts", |request: &OwnRequest<'_>| {
        if request.xml.ends_with("/>") {
            return Err(Refused::invalid("nothing to shout"));
        }
        Ok(CommandResult::words(format!("{}: {}", request.actor.who, request.xml)))
    });
    own.add(
        "Panic",
        Role::Viewer,
        "Panics",
        |_: &OwnRequest<'_>| -> Result<CommandResult, Refused> { panic!("as it should") },
    );
    own.add("Broken", Role::Viewer, "Says no XML", |_: &OwnRequest<'_>| {
        Ok(CommandResult::data("<a>"))
    });
    own
}

/// The example `admin_client` works as its page in the book describes.
#[test]
fn the_client_among_the_examples_lists_the_sessions() {
    let market = market();
    let example = std::env::current_exe().unwrap();
    let example = example.parent().unwrap().parent().unwrap().join("examples/admin_client");
    let out = std::process::Command::new(example)
        .args([&address(&market).to_string(), "viewer-person"])
        .env("TRANSFIX_ADMIN_PASSWORD", PASSWORD)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{out:?}");
    assert!(said.contains("FIX.4.4:MONITOR->FIXADMIN is logged on"), "{said}");
    assert!(said.contains("list-1: <Response ResultCode=\"0\" RequestID=\"1\">"), "{said}");
}

/// HTTP and FIX share the count of a user's refusals; the server writes the rest of the count when
/// it ends.
#[test]
fn a_flood_of_refused_commands_makes_few_lines_and_all_are_counted() {
    const FLOOD: u64 = 200;
    let market = market();
    let mut viewer = Who::of(&market, "viewer");
    (0..FLOOD).for_each(|_| _ = viewer.gets("<ReloadConfig/>", 7, "needs the role administrator"));
    drop(viewer);
    let Market { dir, server, .. } = market;
    drop(server);
    let audit = std::fs::read_to_string(dir.path().join("audit.jsonl")).unwrap();
    let (lines, refusals) = refusals_of("viewer-person", &audit);
    assert_eq!(refusals, FLOOD, "{audit}");
    assert!(lines < FLOOD as usize / 2, "{lines} lines");
}
