//! Generator of the router: a trait with a method for each message, and the dispatch function.

use super::names::snake;
use super::plan::{Part, Plan};
use super::text::Text;

impl Plan<'_> {
    pub(super) fn router(&self, text: &mut Text) {
        text.doc(
            "Receives messages by their type. `S` is the argument beside each message, such as the",
        );
        text.doc("session; `()` if there is none.");
        text.open("pub trait Router<S: ?Sized> {");
        text.doc("The result of a message.");
        text.line("type Answer;");
        text.doc("A message without a method of its own.");
        text.line(
            "fn unsupported(&mut self, message: &t::Message<'_>, session: &mut S) -> Self::Answer;",
        );
        for Part { part: message, view, .. } in &self.messages {
            text.doc(format!("Takes `{}({})`.", message.name, message.msg_type));
            text.open(format!(
                "fn {}(&mut self, message: {view}<'_>, session: &mut S) -> Self::Answer {{",
                method(view)
            ));
            text.line("self.unsupported(message.message(), session)");
            text.close("}");
        }
        text.close("}");
        text.doc("Hands a message to the method of its type.");
        text.line("pub fn route<S: ?Sized, R: Router<S> + ?Sized>(");
        text.line("    message: &t::Message<'_>,");
        text.line("    router: &mut R,");
        text.line("    session: &mut S,");
        text.open(") -> R::Answer {");
        text.open("match message.msg_type().as_bytes() {");
        for Part { part: message, view, .. } in &self.messages {
            let msg_type = message.msg_type.as_bytes().escape_ascii();
            text.line(format!(
                "b\"{msg_type}\" => router.{}({view}(*message), session),",
                method(view)
            ));
        }
        text.line("_ => router.unsupported(message, session),");
        text.close("}");
        text.close("}");
    }
}

/// Returns the router's method name for a view name, such as `on_new_order_single`.
pub(super) fn method(view: &str) -> String {
    format!("on_{}", snake(view).trim_end_matches('_'))
}
