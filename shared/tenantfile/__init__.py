"""Tenant files: read with positions, checked as a whole, compared, applied, and watched by every process."""
