"""Harness of the system tests: private servers, worlds, the real daemon, and sinks for what it sends."""
