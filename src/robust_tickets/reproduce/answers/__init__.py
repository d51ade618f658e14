"""The answers to the campaigns' two questions as Markdown, from outcomes alone: numbers, intervals, verdicts.

What has no runs is called so. The page of the results has every claim; here stand those that the two questions ask for.
"""
