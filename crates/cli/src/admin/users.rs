//! Commands that manage the file of users and tokens.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use comfy_table::{Table, presets};
use transfix_admin::users::{Role, Users};

use crate::foreign;
use crate::input::{answered, failed};
use crate::password;

/// Manage people, who log in with a password.
#[derive(Debug, clap::Args)]
pub(crate) struct User {
    #[command(subcommand)]
    verb: UserVerb,
}

/// Manage programs, which log in with a token.
#[derive(Debug, clap::Args)]
pub(crate) struct Token {
    #[command(subcommand)]
    verb: TokenVerb,
}

#[derive(Debug, clap::Subcommand)]
enum UserVerb {
    Add(AddUser),
    List(List),
    Remove(Remove),
}

#[derive(Debug, clap::Subcommand)]
enum TokenVerb {
    Add(AddToken),
    Remove(Remove),
}

/// The option that names the file of users and tokens.
#[derive(Debug, clap::Args)]
struct InFile {
    /// The file: `users_file` of `[admin]` in the settings.
    #[arg(long, value_name = "FILE", default_value = "users.toml")]
    file: PathBuf,
}

/// Add a user, or change the role and password of a user.
///
/// At a terminal, the program asks for the password twice without showing it. Otherwise the
/// password is the first line of standard input.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix admin user add anna --role operator
  pass show fix/anna | transfix admin user add anna --role administrator --file venue-users.toml

A viewer may only look, an operator may also log sessions on and out, and an administrator may do
everything. A running engine applies the change at once.
Exit code: 0 done, 1 the file cannot be written, 2 wrong usage, name or password.")]
struct AddUser {
    /// The name.
    name: String,
    /// The role of the user: viewer, operator or administrator.
    #[arg(long, default_value = "viewer")]
    role: Role,
    #[command(flatten)]
    at: InFile,
}

/// Show all users and tokens.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix admin user list --file venue-users.toml

Exit code: 0 done, 2 the file cannot be read.")]
struct List {
    #[command(flatten)]
    at: InFile,
}

/// Remove a user or a token, whose access ends immediately.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix admin user remove anna

Exit code: 0 done, 1 the name is unknown, or the file cannot be written, 2 wrong usage, or the file
cannot be read.")]
struct Remove {
    /// The name.
    name: String,
    #[command(flatten)]
    at: InFile,
}

/// Make a token for a program and print it. A token cannot be shown again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  (umask 077; transfix admin token add prometheus --role viewer > prometheus.token)

A program sends the token as `Authorization: Bearer TOKEN`. The file contains only the hash of the
token.
Exit code: 0 done, 1 the file cannot be written, 2 wrong usage or name.")]
struct AddToken {
    /// The name.
    name: String,
    /// The role of the program: viewer, operator or administrator.
    #[arg(long, default_value = "viewer")]
    role: Role,
    #[command(flatten)]
    at: InFile,
}

pub(super) fn user(args: &User) -> ExitCode {
    match &args.verb {
        UserVerb::Add(args) => changed(&args.at.file, true, |users| {
            let password = password::read()?;
            users.set_user(&args.name, args.role, &password)?;
            Ok(format!("{} is a user with the role {}\n", args.name, args.role))
        }),
        UserVerb::List(args) => list(&args.at.file),
        UserVerb::Remove(args) => remove(args),
    }
}

pub(super) fn token(args: &Token) -> ExitCode {
    match &args.verb {
        TokenVerb::Add(args) => changed(&args.at.file, true, |users| {
            users.add_token(&args.name, args.role).map(|token| token + "\n")
        }),
        TokenVerb::Remove(args) => remove(args),
    }
}

fn remove(args: &Remove) -> ExitCode {
    let mut found = true;
    let code = changed(&args.at.file, false, |users| {
        found = users.remove(&args.name);
        let what = if found { "is out" } else { "is not there" };
        Ok(format!("{} {what}\n", args.name))
    });
    if found { code } else { ExitCode::FAILURE }
}

/// Reads the file, applies a change, writes the file, and prints the result.
fn changed(
    path: &Path,
    makes: bool,
    change: impl FnOnce(&mut Users) -> Result<String, String>,
) -> ExitCode {
    let users = if makes && !path.exists() { Ok(Users::default()) } else { Users::load(path) };
    let mut users = match users {
        Ok(users) => users,
        Err(error) => return failed(&error),
    };
    let said = match change(&mut users) {
        Ok(said) => said,
        Err(error) => return failed(&error),
    };
    match users.save(path) {
        Ok(()) => answered(&said),
        Err(error) => {
            eprintln!("transfix: {}", foreign::lines(&error.to_string()));
            ExitCode::FAILURE
        }
    }
}

fn list(path: &Path) -> ExitCode {
    let users = match Users::load(path) {
        Ok(users) => users,
        Err(error) => return failed(&error),
    };
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["name", "role", "logs in with"]);
    for user in &users.users {
        table.add_row([&*user.name, user.role.as_str(), "a password"]);
    }
    for token in &users.tokens {
        table.add_row([&*token.name, token.role.as_str(), "a token"]);
    }
    answered(&format!("{table}\n"))
}
