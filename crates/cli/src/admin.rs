//! `transfix admin`: observes and controls a running engine over HTTP or FIX, and manages its
//! users.

pub(crate) mod remote;
mod shown;
mod users;

use std::process::ExitCode;

/// Observe and control a running engine, and manage its users.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix admin user add anna --role operator
  transfix admin token add prometheus --role viewer > token
  export TRANSFIX_ADMIN_TOKEN=$(cat token)
  transfix admin sessions
  transfix admin do 'FIX.4.4:VENUE->DESK' log_out text='end of day'
  transfix admin do 'FIX.4.4:VENUE->DESK' set_numbers next_in=5 --confirm 'FIX.4.4:VENUE->DESK'
  transfix admin --fix 127.0.0.1:9891 --user anna --password-file pw sessions

The engine needs [admin] in its settings; see `transfix settings reference admin`.")]
pub(crate) struct Args {
    #[command(flatten)]
    fix: remote::FixTo,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    User(users::User),
    Token(users::Token),
    #[command(flatten)]
    Remote(Box<remote::Verb>),
}

pub(crate) fn run(args: &Args) -> ExitCode {
    match &args.verb {
        Verb::User(args) => users::user(args),
        Verb::Token(args) => users::token(args),
        Verb::Remote(verb) => remote::run(verb, &args.fix),
    }
}
