"""Evidence that stands on its own: all that a verdict rests on in one file, and the means to derive it again offline.

``gathering`` makes the file at the end of a run, ``archive`` writes and reads it, ``layout`` says what is in it,
``verifying`` scores and decides anew from the raw replies and names what does not agree.
"""
