//! Lists the settings keys that scenarios cannot show, because they concern threads, sockets,
//! files, the wall clock or several sessions. For each key, the list names a test that shows it on
//! and off.

/// The entries: the key, the file below `crates`, and the test.
pub(super) const OF_THE_ENGINE: &[(&str, &str, &str)] = &[
    ("[engine].created_sessions_idle_s", DYNAMIC, "sessions_of_a_template_go_when_nobody_comes"),
    ("target_comp_id", TEMPLATES, "sessions_are_made_from_a_template"),
    ("target_comp_id", TEMPLATES, "without_a_template_nobody_else_gets_in"),
    ("qualifier", SWITCHES, "a_qualifier_tells_equal_sessions_apart"),
    ("reconnect_interval_ms", TRADE, "messages_lost_on_the_way_are_resent_after_the_next_logon"),
    ("reconnect_interval_max_ms", CONNECTOR, "a_refused_logon_slows_the_next_try_down"),
    ("reconnect_backoff", CONNECTOR, "nobody_there_slows_the_next_round_down_if_that_is_wanted"),
    (
        "reconnect_jitter_percent",
        CONNECTOR,
        "some_of_the_pause_is_left_to_chance_and_is_each_sessions_own",
    ),
    ("reconnect_attempts_max", FAILOVER, "it_gives_up_after_as_many_attempts_as_it_may"),
    ("connect_timeout_ms", FAILOVER, "who_says_nothing_is_left_in_time"),
    ("failover", FAILOVER, "a_settings_file_says_where_else_and_through_whom"),
    ("failover.addresses", FAILOVER, "a_backup_takes_over_and_the_primary_comes_back"),
    ("failover.order", CONNECTOR, "destinations_follow_each_other_as_the_settings_say"),
    ("failover.attempts", CONNECTOR, "destinations_follow_each_other_as_the_settings_say"),
    ("failover.reset_on_backup", FAILOVER, "a_backup_takes_over_and_the_primary_comes_back"),
    ("failover.reset_on_primary", FAILOVER, "a_backup_takes_over_and_the_primary_comes_back"),
    ("failover.own_store", FAILOVER, "backups_have_a_store_of_their_own_if_that_is_wanted"),
    ("proxy", FAILOVER, "a_proxy_puts_the_connection_through"),
    ("proxy.kind", FAILOVER, "a_proxy_puts_the_connection_through"),
    ("proxy.address", FAILOVER, "a_proxy_puts_the_connection_through"),
    ("proxy.username", FAILOVER, "a_proxy_puts_the_connection_through"),
    ("proxy.password", FAILOVER, "a_proxy_puts_the_connection_through"),
    ("mode", TRADE, "every_version_and_mode_logs_on_trades_and_logs_out"),
    ("mode", TRADE, "polled_sessions_are_driven_by_the_application"),
    ("spin_us", WORKER, "a_worker_looks_for_a_while_before_it_sleeps"),
    ("cpu", THREADS, "threads_are_as_many_as_wanted_and_where_they_are_wanted"),
    ("batch_messages_max", BATCHES, "answers_leave_before_the_turn_is_over_if_a_batch_is_full"),
    ("batch_bytes_max", BATCHES, "answers_leave_before_the_turn_is_over_if_a_batch_is_full"),
    ("latency_points", LATENCY, "without_points_nothing_is_measured"),
    ("schedule", SCHEDULE, "connects_and_logs_out_by_its_windows_and_begins_at_1_in_each"),
    ("after_panic", TOLD, "a_session_that_has_panicked_comes_back_or_stays_down"),
    ("send", TRADE, "queued_sends_keep_their_order"),
    ("send", TRADE, "many_threads_send_into_one_session"),
    ("unsent", OUTGOING, "what_was_not_sent_comes_back_at_the_end"),
    ("header_fields", BEFORE_SEND, "fields_of_the_settings_stand_in_the_header_of_each_message"),
    (
        "body_fields",
        BEFORE_SEND,
        "fields_of_the_settings_stand_in_the_bodies_that_have_a_place_for_them",
    ),
    (
        "validate_out",
        BEFORE_SEND,
        "what_the_counterparty_would_reject_is_refused_or_warned_of_or_sent",
    ),
    ("session_dictionary", BEFORE_SEND, "the_session_layer_of_fixt_has_fields_of_a_venues_own"),
    ("route_third_party", DELIVERY, "messages_for_third_parties_are_passed_on"),
    ("durability", TRADE, "both_sides_go_on_where_they_were_after_a_restart"),
    ("durability", "store/tests/crash.rs", "process_durability_outlives_the_process"),
    ("durability", "store/tests/crash.rs", "power_durability_outlives_the_power"),
    ("store_dir", TRADE, "both_sides_go_on_where_they_were_after_a_restart"),
    (
        "allow_network_store",
        "store/src/file_system.rs",
        "a_store_on_the_network_is_refused_unless_it_is_allowed",
    ),
    ("logon.expected_password_hash", STRANGERS, "a_password_is_checked_by_its_hash"),
    ("[engine].failed_logons_max", STRANGERS, "where_many_logons_have_failed_the_next_one_waits"),
    (
        "[engine].failed_logon_delay_max_ms",
        STRANGERS,
        "where_many_logons_have_failed_the_next_one_waits",
    ),
    ("allow_from", STRANGERS, "an_address_that_no_session_allows_is_closed_at_once"),
    ("allow_from", STRANGERS, "a_session_is_not_there_for_an_address_that_it_does_not_allow"),
    ("proxy_protocol_from", STRANGERS, "a_proxy_says_for_whom_it_connects"),
    ("logon_answer_ms", LATER, "an_answer_that_does_not_come_in_time_is_a_refusal"),
    ("keep_inbound", SWITCHES, "messages_received_are_kept_if_wanted"),
    ("refresh_on_logon", OWN_STORE, "a_session_goes_on_where_another_process_has_left_the_store"),
    ("queue_expires_s", QUEUE, "what_has_waited_too_long_comes_back_also_to_a_later_process"),
    ("segment_bytes", "store/tests/laws.rs", "file_with_tiny_segments"),
    ("retention", "engine/tests/files/retention.rs", "settings_that_contradict_each_other"),
    ("log", LOG, "both_directions_rejected_and_garbled_with_secrets_masked"),
    (
        "queued_bytes_max",
        "engine/tests/stop/mod.rs",
        "a_stalled_counterparty_fills_its_own_queue_only",
    ),
    ("queue_when_full", PRESSURE, "a_full_queue_refuses_waits_or_disconnects"),
    ("queue_when_full", PRESSURE, "a_callback_sends_however_much_waits"),
    ("queue_wait_ms", PRESSURE, "a_full_queue_refuses_waits_or_disconnects"),
    ("slow_consumer_bytes", PRESSURE, "a_slow_consumer_is_told_until_it_has_caught_up"),
    ("slow_consumer_ms", PRESSURE, "a_slow_consumer_is_disconnected_if_wanted"),
    ("slow_consumer", PRESSURE, "a_slow_consumer_is_disconnected_if_wanted"),
    ("turn_messages_max", TURNS, "a_burst_of_one_session_does_not_hold_up_the_others"),
    ("tcp_nodelay", TCP, "options_reach_both_ends"),
    ("tcp_send_buffer_bytes", TCP, "options_reach_both_ends"),
    ("tcp_receive_buffer_bytes", TCP, "options_reach_both_ends"),
    ("tcp_keepalive_s", TCP, "options_reach_both_ends"),
    ("tcp_keepalive_interval_s", TCP, "options_reach_both_ends"),
    ("tcp_keepalive_probes", TCP, "options_reach_both_ends"),
    ("tcp_user_timeout_ms", TCP, "options_reach_both_ends"),
    ("tcp_quick_ack", TCP, "quick_acknowledgements_outlive_a_read"),
    ("tcp_reset_on_close", TCP, "options_reach_both_ends"),
    ("busy_poll_us", LISTENING, "each_key_of_the_socket_is_an_option"),
    ("dscp", TCP, "options_reach_both_ends"),
    (
        "local_address",
        "engine/src/drive/routes.rs",
        "a_local_address_chooses_the_family_of_the_remote_one",
    ),
    ("local_address", TRADE, "an_initiator_connects_from_its_local_address"),
    ("reuse_port", TRADE, "engines_share_a_port_if_all_of_them_say_so"),
    ("tls", TLS, "each_mode_trades_and_logs_out"),
    ("tls.enabled", TLS, "a_settings_file_says_all_of_it"),
    ("tls.certificate", TLS, "each_mode_trades_and_logs_out"),
    ("tls.certificate", TLS, "a_new_certificate_counts_from_the_next_connection_on"),
    ("tls.key", TLS, "settings_that_do_not_fit_are_refused_at_the_start"),
    ("tls.more_certificates", "transport/tests/tls.rs", "the_name_asked_for_picks_the_certificate"),
    ("tls.ca", TLS, "what_is_wrong_stands_in_one_clear_line_on_both_sides"),
    ("tls.crl", TLS, "what_is_wrong_stands_in_one_clear_line_on_both_sides"),
    ("tls.client_certificate", TLS, "what_is_wrong_stands_in_one_clear_line_on_both_sides"),
    ("tls.client_certificate", "transport/tests/tls.rs", "a_client_shows_what_is_required_of_it"),
    ("tls.peer", TLS, "a_certificate_is_good_for_the_sessions_of_its_firm_alone"),
    ("tls.server_name", TLS, "what_is_wrong_stands_in_one_clear_line_on_both_sides"),
    (
        "tls.check_name",
        "transport/tests/tls.rs",
        "a_wrong_certificate_is_refused_in_words_on_both_sides",
    ),
    ("tls.min_version", TLS, "a_settings_file_says_all_of_it"),
    ("retention.archive_dir", RETENTION, "only_segments_from_before_the_last_reset_are_archived"),
    ("retention.delete_after_days", RETENTION, "what_is_old_enough_and_not_needed_is_deleted"),
    ("retention.rotate_every_h", RETENTION, "a_new_day_begins_a_new_segment"),
    ("retention.compress", RETENTION, "what_is_not_needed_is_compressed_read_and_deleted"),
    ("retention.compress", RETENTION, "without_the_feature_nothing_is_compressed_and_nothing_lost"),
    ("retention.bytes_max", RETENTION, "beyond_the_limit_the_oldest_messages_are_forgotten"),
    ("retention.when_full", RETENTION, "beyond_the_limit_the_oldest_messages_are_forgotten"),
    (
        "retention.when_full",
        RETENTION,
        "beyond_the_limit_messages_are_refused_until_the_next_reset",
    ),
    ("log.dir", LOG, "both_directions_rejected_and_garbled_with_secrets_masked"),
    ("log.direction", LOG, "both_directions_rejected_and_garbled_with_secrets_masked"),
    ("log.direction", LOG, "one_file_with_words_goes_on_where_it_ended"),
    ("log.mask", LOG, "both_directions_rejected_and_garbled_with_secrets_masked"),
    ("log.roll_bytes", LOG, "closed_files_are_named_by_their_first_line_and_the_oldest_go"),
    ("log.roll_every_h", LOG, "a_new_file_begins_with_the_first_line_of_a_new_hour"),
    ("log.rolled_files_max", LOG, "closed_files_are_named_by_their_first_line_and_the_oldest_go"),
    ("log.compress", LOG, "closed_files_are_compressed"),
    ("log.buffer_bytes", LOG, "lines_beyond_the_buffer_are_counted_there_and_by_the_session"),
    ("log.write_every_ms", LOG, "lines_beyond_the_buffer_are_counted_there_and_by_the_session"),
    ("schedule.from", SCHEDULE, "outside_of_its_window_an_acceptor_takes_no_logon"),
    ("schedule.to", SCHEDULE, "connects_and_logs_out_by_its_windows_and_begins_at_1_in_each"),
    ("schedule.windows", SCHEDULE, "windows_that_touch_are_two_all_the_same"),
    ("schedule.outside", SCHEDULE, "connects_and_logs_out_by_its_windows_and_begins_at_1_in_each"),
    ("schedule.outside", SCHEDULE, "messages_outside_are_rejected_if_the_session_stays"),
    ("schedule.windows.open", WINDOWS, "several_a_day_and_cron"),
    ("schedule.windows.close", WINDOWS, "several_a_day_and_cron"),
    ("dictionary.base", "engine/tests/dictionary.rs", "a_venues_data_field_and_its_checks"),
    (
        "dictionary.scenario",
        "dictionary/src/orchestra/tests.rs",
        "of_several_scenarios_one_is_taken",
    ),
    ("dictionary.overlays", DICTIONARIES, "an_overlay_makes_a_field_legal_and_required"),
    ("application", APPLICATION, "more_than_may_wait_holds_up_or_ends_the_connection"),
    ("application.in_pool", APPLICATION, "an_application_may_stay_with_its_session"),
    ("application.messages_max", APPLICATION, "more_than_may_wait_holds_up_or_ends_the_connection"),
    ("application.bytes_max", APPLICATION, "more_than_may_wait_holds_up_or_ends_the_connection"),
    ("application.when_full", APPLICATION, "more_than_may_wait_holds_up_or_ends_the_connection"),
    (
        "[engine].application_threads",
        APPLICATION,
        "a_slow_application_holds_up_neither_its_session_nor_the_others",
    ),
    ("[engine].application_spin_us", APPLICATION, "threads_that_look_for_work_find_it"),
    ("[engine].workers", THREADS, "threads_are_as_many_as_wanted_and_where_they_are_wanted"),
    ("[engine].rebalance_ms", MOVING, "sessions_stay_where_they_are_if_the_settings_say_so"),
    ("[engine].hot_worker_percent", MOVING, "a_session_goes_to_a_calmer_worker_without_a_gap"),
    ("[engine].cpus", THREADS, "threads_are_as_many_as_wanted_and_where_they_are_wanted"),
    ("[engine].helper_cpus", THREADS, "a_pinned_thread_does_not_pass_its_cpu_on_to_helpers"),
    ("[engine].log_cpu", THREADS, "threads_are_as_many_as_wanted_and_where_they_are_wanted"),
    ("[engine].pending_connections_max", SWITCHES, "connections_wait_in_limited_number"),
    (
        "[engine].pending_connections_max",
        STRANGERS,
        "honest_logons_come_through_while_silent_connections_are_renewed",
    ),
    ("[engine].pending_per_address_max", STRANGERS, "an_address_has_room_of_its_own"),
    ("[engine].thread_lost", STRANGERS, "a_thread_that_panics_goes_on"),
    ("[engine].thread_lost", STRANGERS, "or_ends_the_process_if_the_settings_say_so"),
    ("[engine].slow_callback_ms", STRANGERS, "a_callback_that_does_not_return_is_named"),
    ("[engine].latency_window_s", LATENCY, "a_stage_that_leaves_its_usual_range_is_known"),
    ("[engine].latency_unusual_percent", LATENCY, "a_stage_that_leaves_its_usual_range_is_known"),
    ("[engine].latency_at_stop", LATENCY, "the_stop_tells_if_it_is_asked"),
    ("[engine].audit_file", ADMIN, "each_action_does_what_it_says_and_is_written_down"),
    ("[engine].audit_file", ADMIN, "what_the_audit_file_does_not_take_is_not_done"),
    ("[admin].address", "admin/tests/access.rs", "it_does_not_start_where_it_would_not_be_safe"),
    ("[admin].users_file", "admin/tests/access.rs", "it_does_not_start_where_it_would_not_be_safe"),
    ("[admin].certificate", "admin/tests/tls.rs", "a_browser_is_served_by_tls"),
    ("[admin].key", "admin/tests/tls.rs", "a_browser_is_served_by_tls"),
    ("[admin].open_metrics", "admin/tests/looking.rs", "metrics_are_those_of_the_sessions"),
    ("[admin].login_idle_min", "admin/src/logins.rs", "a_login_ends_when_it_is_idle_or_old"),
    ("[events].levels", EVENTS, "levels_are_set_from_afar_until_the_next_reload"),
    ("[events].stderr_level", EVENTS, "each_destination_has_its_form_and_its_level"),
    ("[events].stderr_form", EVENTS, "each_destination_has_its_form_and_its_level"),
    ("[events].file", EVENTS, "each_destination_has_its_form_and_its_level"),
    ("[events].file", EVENTS, "a_full_disk_stops_nothing_and_heals"),
    ("[events].file", EVENTS, "two_programs_do_not_write_one_file_and_a_torn_line_ends"),
    ("[events].file_level", EVENTS, "a_level_keeps_events_from_a_destination"),
    ("[events].file_form", EVENTS, "each_destination_has_its_form_and_its_level"),
    ("[events].roll_bytes", EVENTS, "a_file_is_rolled_by_size_and_by_hand_and_old_ones_go"),
    ("[events].roll_every_h", EVENTS, "a_new_file_is_begun_with_a_new_day"),
    ("[events].rolled_files_max", EVENTS, "a_file_is_rolled_by_size_and_by_hand_and_old_ones_go"),
    ("[events].rolled_days_max", EVENTS, "a_file_is_rolled_by_size_and_by_hand_and_old_ones_go"),
    ("[events].compress", EVENTS, "closed_files_are_compressed"),
    ("[events].syslog", EVENTS, "each_destination_has_its_form_and_its_level"),
    ("[events].syslog", EVENTS, "syslog_takes_lines_by_udp"),
    ("[events].syslog", EVENTS, "a_syslog_that_comes_late_has_what_has_waited"),
    ("[events].syslog_level", EVENTS, "each_destination_has_its_form_and_its_level"),
    ("[events].syslog_facility", EVENTS, "each_destination_has_its_form_and_its_level"),
    ("[events].journald", EVENTS, "each_destination_has_its_form_and_its_level"),
    ("[events].journald_level", EVENTS, "a_level_keeps_events_from_a_destination"),
    ("[admin].fix", FIX, "an_administrator_lists_the_sessions"),
    ("[admin.fix].address", FIX, "it_does_not_start_where_it_would_not_be_safe"),
    ("[admin.fix].sender_comp_id", FIX, "its_name_and_version_are_those_of_the_settings"),
    ("[admin.fix].begin_string", FIX, "its_name_and_version_are_those_of_the_settings"),
    ("[admin.fix].allow_from", FIX, "who_comes_from_elsewhere_finds_nobody"),
    ("[admin.fix].sessions_max", FIX, "more_administrators_than_may_be_are_refused"),
    ("[admin.fix].idle_min", "admin/src/fix/logged_on_users.rs", "who_is_idle_is_out"),
    ("[engine].waiting_bytes_max", MEMORY, "the_heaviest_session_makes_room"),
];

const FIX: &str = "admin/tests/fix.rs";
const EVENTS: &str = "cli/tests/command_line/events.rs";
const ADMIN: &str = "engine/tests/switches/admin.rs";
const APPLICATION: &str = "engine/tests/switches/application_threads.rs";
const BATCHES: &str = "engine/tests/switches/batches.rs";
const BEFORE_SEND: &str = "engine/tests/switches/before_send.rs";
const MOVING: &str = "engine/tests/switches/moving.rs";
const STRANGERS: &str = "engine/tests/strangers/main.rs";
const LATENCY: &str = "engine/tests/switches/latency.rs";
const LATER: &str = "engine/tests/switches/later.rs";
const TURNS: &str = "engine/tests/switches/turns.rs";
const LISTENING: &str = "engine/src/drive/listening.rs";
const CONNECTOR: &str = "engine/src/drive/connector/tests.rs";
const FAILOVER: &str = "engine/tests/switches/failover.rs";
const TOLD: &str = "engine/tests/switches/told.rs";
const DYNAMIC: &str = "engine/tests/switches/dynamic.rs";
const DELIVERY: &str = "engine/tests/switches/delivery.rs";
const DICTIONARIES: &str = "engine/tests/dictionaries.rs";
const LOG: &str = "engine/tests/files/log.rs";
const MEMORY: &str = "engine/tests/switches/memory.rs";
const OUTGOING: &str = "engine/tests/switches/outgoing.rs";
const PRESSURE: &str = "engine/tests/switches/pressure.rs";
const OWN_STORE: &str = "engine/tests/switches/own_store.rs";
const QUEUE: &str = "engine/tests/switches/queue.rs";
const RETENTION: &str = "store/tests/retention.rs";
const SCHEDULE: &str = "engine/tests/schedule.rs";
const SWITCHES: &str = "engine/tests/switches/mod.rs";
const TCP: &str = "transport/tests/tcp.rs";
const TLS: &str = "engine/tests/tls/main.rs";
const TEMPLATES: &str = "engine/tests/switches/templates.rs";
const WORKER: &str = "engine/src/drive/worker/tests.rs";
const THREADS: &str = "engine/tests/threads.rs";
const TRADE: &str = "engine/tests/trade.rs";
const WINDOWS: &str = "settings/src/schedule/tests.rs";
