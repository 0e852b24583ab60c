"""From an event and a tenant to what each channel is to send: decided and rendered, without any I/O."""
