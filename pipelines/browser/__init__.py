"""Pages as a browser has them: Playwright driving the machine's Chromium, behind the fetch guard.

Nothing is imported here: Playwright takes a while to load, and only the workers that visit pages need it.
"""
